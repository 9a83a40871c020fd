#!/usr/bin/python3
"""A server that waits in the way asked for, and a client that waits in the same way and verifies it.

    ready_programs.py server WAY PORT
    ready_programs.py client WAY HOST PORT CONNECTIONS ROUNDS

WAY is poll, select, level, edge, oneshot, nested or threads (several on one set of one-shot
registrations). The server sends back what comes and, when that has ended, how much it was.
"""

import os
import random
import select
import signal
import socket
import sys
import threading
import time

import thread_failures  # noqa: F401  pylint: disable=unused-import

IN, OUT = select.EPOLLIN, select.EPOLLOUT
LAST = 8  # bytes of the count at the end


class Poll:
    """poll()."""
    def __init__(self):
        self.set = select.poll()

    def add(self, fd, events):
        self.set.register(fd, events)

    modify = add

    def remove(self, fd):
        self.set.unregister(fd)

    def wait(self, seconds):
        return self.set.poll(seconds * 1000)


class Select:
    """select()."""
    def __init__(self):
        self.wanted = {}

    def add(self, fd, events):
        self.wanted[fd] = events

    modify = add

    def remove(self, fd):
        del self.wanted[fd]

    def wait(self, seconds):
        reads = [fd for fd, events in self.wanted.items() if events & IN]
        writes = [fd for fd, events in self.wanted.items() if events & OUT]
        events = {}
        read, written, _ = select.select(reads, writes, list(self.wanted), seconds)
        for fd in read:
            events[fd] = IN
        for fd in written:
            events[fd] = events.get(fd, 0) | OUT
        return list(events.items())


class Level:
    """epoll, level-triggered."""
    flags = 0

    def __init__(self):
        self.set = select.epoll()

    def add(self, fd, events):
        self.set.register(fd, events | self.flags)

    def modify(self, fd, events):
        self.set.modify(fd, events | self.flags)

    def remove(self, fd):
        self.set.unregister(fd)

    def wait(self, seconds):
        return self.set.poll(seconds, 7)


class Edge(Level):
    """epoll, edge-triggered."""
    flags = select.EPOLLET


class OneShot(Level):
    """epoll, armed again for each event."""
    flags = select.EPOLLONESHOT


class Nested(Level):
    """A set in a set, of which the outer one is waited for."""
    def __init__(self):
        super().__init__()
        self.outer = select.epoll()
        self.outer.register(self.set.fileno(), IN)

    def wait(self, seconds):
        if not self.outer.poll(seconds):
            return []
        return self.set.poll(0)


WAYS = {'poll': Poll, 'select': Select, 'level': Level, 'edge': Edge, 'oneshot': OneShot,
        'nested': Nested, 'threads': OneShot}


class Peer:
    """One connection: what is to be sent, and what to do with what comes."""
    def __init__(self, way, connection):
        self.way, self.socket = way, connection
        self.fd = connection.fileno()
        self.out = bytearray()
        self.ends = False    # after `out`
        self.ended = False
        self.came = 0
        self.wanted = IN
        connection.setblocking(False)

    def receive(self):
        """All there is; False at the end."""
        while True:
            try:
                piece = self.socket.recv(65536)
            except BlockingIOError:
                return True
            if not piece:
                return False
            self.came += len(piece)
            self.take(piece)

    def send(self):
        """As much as goes."""
        while self.out:
            try:
                sent = self.socket.send(self.out)
            except BlockingIOError:
                return
            del self.out[:sent]
        if self.ends and not self.ended:
            self.socket.shutdown(socket.SHUT_WR)
            self.ended = True

    def handle(self):
        """Whatever is ready. False when the connection is over."""
        over = not self.receive() and self.at_end()
        self.send()
        if over or (self.ended and self.done()):
            return False
        wanted = (0 if self.done() else IN) | (OUT if self.out else 0)
        # Edges are asked for once, one shots each time.
        if isinstance(self.way, OneShot) or wanted != self.wanted:
            self.wanted = wanted
            self.way.modify(self.fd, wanted)
        return True

    def __str__(self):
        return (f'{self.fd}: {self.came} bytes have come, {len(self.out)} are to be sent, '
                f'waits for {self.wanted}, ended {self.ended}')

    def close(self):
        self.way.remove(self.fd)
        self.socket.close()


class Echo(Peer):
    """The server's end."""
    finished = False

    def take(self, piece):
        self.out += piece

    def at_end(self):
        if not self.finished:
            self.finished = True
            self.out += self.came.to_bytes(LAST, 'big')
            self.ends = True
        return False

    def done(self):
        return self.finished


class Check(Peer):
    """The client's: sends random messages, each after the one before has come back."""
    def __init__(self, way, connection, rounds, seed):
        super().__init__(way, connection)
        self.random = random.Random(seed)
        self.rounds = rounds
        self.expected = bytearray()
        self.sent = 0
        self.correct = False
        way.add(self.fd, IN)
        self.next()
        self.handle()

    def next(self):
        if self.rounds == 0:
            self.expected += self.sent.to_bytes(LAST, 'big')
            self.ends = True
            return
        self.rounds -= 1
        size = self.random.choice((1, 10, 100, 1500, 5000, 40000, 200000))
        message = self.random.randbytes(size)
        self.sent += size
        self.out += message
        self.expected += message

    def take(self, piece):
        if not self.expected.startswith(piece):
            raise AssertionError('something else has come back')
        del self.expected[:len(piece)]
        if not self.expected and not self.ends:
            self.next()

    def at_end(self):
        if self.expected:
            raise AssertionError(f'{len(self.expected)} bytes have not come back')
        self.correct = True
        return True

    def done(self):
        return False


def serve(kind, port):
    """For ever."""
    listener = socket.create_server(('0.0.0.0', port), backlog=128)
    listener.setblocking(False)
    way = WAYS[kind]()
    way.add(listener.fileno(), IN)
    peers = {}

    def accept_all():
        while True:
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                break
            peer = Echo(way, connection)
            peers[peer.fd] = peer
            way.add(peer.fd, IN)  # other threads may see it from now on
        way.modify(listener.fileno(), IN)

    signal.signal(signal.SIGUSR1, lambda *_: print(*peers.values(), sep='\n', flush=True))

    def turns():
        while True:
            for fd, _ in way.wait(60):
                if fd == listener.fileno():
                    accept_all()
                elif fd in peers and not peers[fd].handle():
                    peers.pop(fd).close()

    for _ in range(3 if kind == 'threads' else 0):
        threading.Thread(target=turns).start()
    turns()


def check(kind, host, port, connections, rounds):
    """Until all is verified."""
    way = WAYS[kind]()
    # Something of the kernel's between them: a thread that writes to a pipe.
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    way.add(reader, IN)
    stop = threading.Event()
    ticks = 0

    def tick():
        while not stop.wait(0.01):
            os.write(writer, b'.')

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        peers = {}
        for i in range(connections):
            connection = socket.create_connection((host, port), timeout=20)
            peers[connection.fileno()] = Check(way, connection, rounds, i)
        last = time.monotonic()
        while peers:
            if time.monotonic() > last + 15:
                for peer in peers.values():
                    print(peer)
                raise AssertionError(f'nothing for 15 s, {len(peers)} connections left')
            for fd, _ in way.wait(20):
                if fd == reader:
                    ticks += len(os.read(reader, 4096))
                    way.modify(reader, IN)
                    continue
                last = time.monotonic()
                if fd in peers and not peers[fd].handle():
                    peer = peers.pop(fd)
                    if not peer.correct:
                        raise AssertionError('the end came too early')
                    peer.close()
        if ticks == 0:
            raise AssertionError('the pipe was never seen')
    finally:
        stop.set()
        ticker.join()
    print(f'{connections} connections, {ticks} ticks')


if __name__ == '__main__':
    if sys.argv[1] == 'server':
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        check(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
