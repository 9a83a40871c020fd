"""A server of connections that ask for numbered answers, and its client, which checks each byte: route_programs.py
server PORT WHAT CONNECTIONS ROUNDS, or client HOST PORT WHAT CONNECTIONS ROUNDS, which may be followed by others that the
same client does when its process has one thread again: PORT WHAT CONNECTIONS ROUNDS. WHAT is the kind of answers: small, large
(sent), files (by sendfile), or forked (small ones, by a child for each connection). ROUNDS is a number, or a time such as 8s."""

import os
import select
import signal
import socket
import sys
import tempfile
import time

SIZES = {'small': 40, 'forked': 40, 'large': 70_000, 'files': 200_000}


def pattern(size):
    """Bytes in which no two places of an answer are alike for long."""
    return b''.join(i.to_bytes(4, 'big') for i in range(size // 4 + 1))[:size]


class Answers:
    """The bytes of answer N are the pattern's from N on, all round."""

    def __init__(self, what):
        self.size = SIZES[what]
        self.twice = pattern(self.size) * 2
        self.forks = what == 'forked'
        self.file = None
        if what == 'files':
            self.file = tempfile.TemporaryFile()
            self.file.write(self.twice)
            self.file.flush()

    def place(self, number):
        return number * 13 % self.size

    def answer(self, number):
        return self.twice[self.place(number):self.place(number) + self.size]


class Connection:
    """The server's end of one, which never waits."""

    def __init__(self, sock, answers):
        self.sock, self.answers = sock, answers
        self.question, self.at, self.left = b'', 0, 0

    def turn(self):
        """False: the client has closed."""
        while True:
            if self.left and not self.send():
                return True
            try:
                data = self.sock.recv(4 - len(self.question))
            except BlockingIOError:
                return True
            if not data:
                return False
            self.question += data
            if len(self.question) == 4:
                self.at = self.answers.place(int.from_bytes(self.question, 'big'))
                self.left, self.question = self.answers.size, b''

    def send(self):
        """False: there is no room now."""
        try:
            if self.answers.file:
                sent = os.sendfile(self.sock.fileno(), self.answers.file.fileno(), self.at, self.left)
            else:
                sent = self.sock.send(self.answers.twice[self.at:self.at + self.left])
        except BlockingIOError:
            return False
        self.at += sent
        self.left -= sent
        return True


def serve_by_child(listener, sock, answers):
    """In a child that ends with the connection."""
    if os.fork():
        sock.close()
        return
    listener.close()
    sock.setblocking(False)
    connection = Connection(sock, answers)
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN)
    while connection.turn():
        poll.poll()
    sock.close()
    os._exit(0)


def serve(port, answers):
    listener = socket.create_server(('', port), backlog=100)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while answers.forks:
        serve_by_child(listener, listener.accept()[0], answers)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    open_ones = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                open_ones[sock.fileno()] = Connection(sock, answers)
                poll.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
            elif not open_ones[fd].turn():
                open_ones.pop(fd).sock.close()


def ask(host, port, answers, connections, rounds):
    until = time.monotonic() + int(rounds[:-1]) if rounds.endswith('s') else None
    least = 0 if until else int(rounds)
    socks = [socket.create_connection((host, port)) for _ in range(connections)]
    poll = select.epoll()
    got, number = {}, {}
    for n, sock in enumerate(socks):
        sock.setblocking(False)
        poll.register(sock, select.EPOLLIN)
        number[sock.fileno()], got[sock.fileno()] = n * 1000, b''
        sock.send(number[sock.fileno()].to_bytes(4, 'big'))
    by_number = {sock.fileno(): sock for sock in socks}
    left = {fd: least for fd in by_number}
    while left:
        for fd, _ in poll.poll(30):
            got[fd] += by_number[fd].recv(answers.size - len(got[fd]))
            if len(got[fd]) < answers.size:
                continue
            assert got[fd] == answers.answer(number[fd]), f'answer {number[fd]} of {fd} is another one'
            got[fd] = b''
            number[fd] += 1
            left[fd] -= 1
            if left[fd] > 0 or (until and time.monotonic() < until):
                by_number[fd].send(number[fd].to_bytes(4, 'big'))
            else:
                del left[fd]
                poll.unregister(fd)
    print(f'{connections} connections, {rounds} answers each: all right', flush=True)
    return socks


def await_one_thread():
    """The library has none any more."""
    for _ in range(1000):
        if len(os.listdir('/proc/self/task')) == 1:
            return
        time.sleep(0.01)
    sys.exit('the library keeps its threads')


def main():
    if sys.argv[1] == 'server':
        serve(int(sys.argv[2]), Answers(sys.argv[3]))
    host, work, kept = sys.argv[2], sys.argv[3:], []
    while work:
        port, what, connections, rounds = work[:4]
        kept += ask(host, int(port), Answers(what), int(connections), rounds)
        work = work[4:]
        if work:
            await_one_thread()


if __name__ == '__main__':
    main()
