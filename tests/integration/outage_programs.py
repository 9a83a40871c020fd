#!/usr/bin/python3
"""Connections that live on while a test takes away what carries them.

    outage_programs.py serve PORT DIRECTORY BYTES
    outage_programs.py call HOST PORT DIRECTORY BYTES

All connections exchange messages until DIRECTORY/lanes is there. Then one sends at least BYTES each way, all of which
are compared; the others are idle, one in a call that waits and the rest in none. When DIRECTORY/over is there, the
idle ones exchange something, and the transfers come to their end. Both programs put their number into
DIRECTORY/serve.pid or call.pid when they have met, and DIRECTORY/serve.up or call.up is there when the transfer has begun.
"""

import os
import random
import select
import socket
import sys
import threading
import time

PERIOD = 1_000_003
PATTERN = random.Random(1).randbytes(PERIOD) * 2
CONNECTIONS = 5
MESSAGE = 1000
MORE, LAST = b'm' * MESSAGE, b'l' * MESSAGE


class Transfer:
    """Both directions at once."""

    def __init__(self, connection, directory, least):
        self.connection, self.directory, self.least = connection, directory, least
        self.sent = self.got = 0
        self.failures = []
        self.threads = [threading.Thread(target=guarded, args=(self.failures, 'transfer', each))
                        for each in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self):
        """Until there is enough and the outage is over."""
        numbers = random.Random(os.getpid())
        while self.sent < self.least or not os.path.exists(self.directory + '/over'):
            count = numbers.choice((1, 100, 3000, 40_000, 300_000))
            at = self.sent % PERIOD
            self.connection.sendall(PATTERN[at:at + count])
            self.sent += count
            # Leaves other tests something of the machine.
            if self.sent > self.least:
                time.sleep(0.005)
        self.connection.shutdown(socket.SHUT_WR)

    def receive(self):
        """To the end of the stream."""
        while piece := self.connection.recv(200_000):
            at = self.got % PERIOD
            if piece != PATTERN[at:at + len(piece)]:
                raise OSError(f'other bytes after {self.got}: {len(piece)}, {piece[:40].hex()}')
            self.got += len(piece)

    def join(self):
        """Until both are at their end."""
        for thread in self.threads:
            thread.join()


def guarded(failures, what, function, *arguments):
    """A thread's failure is its program's."""
    try:
        function(*arguments)
    except OSError as error:
        failures.append(f'{what}: {error}')


def receive(connection):
    """A message."""
    message = connection.recv(MESSAGE, socket.MSG_WAITALL)
    if len(message) != MESSAGE:
        raise OSError(f'the stream ends after {len(message)} bytes of a message')
    return message


def exchange(connection, first, message=MORE):
    """A question and its answer, which is the same."""
    if first:
        connection.sendall(message)
        if receive(connection) != message:
            raise OSError('another answer')
    else:
        message = receive(connection)
        connection.sendall(message)
    return message


def warm_up(connections, first, directory):
    """Until the test has seen that there are lanes."""
    last = False
    while not last:
        last = first and os.path.exists(directory + '/lanes')
        for connection in connections:
            message = exchange(connection, first, LAST if last else MORE)
            last = last or message == LAST
        if first:
            time.sleep(0.001)


def wait(connection, first):
    """In one call from before the outage to its end."""
    if first:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.poll()
        if receive(connection) != MORE:
            raise OSError('another message')
    else:
        exchange(connection, False)


def run(connections, first, directory, least):
    """Both programs."""
    name = f'{directory}/{"call" if first else "serve"}'
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with open(name + '.pid', 'w', encoding='ascii') as file:
        print(os.getpid(), file=file)
    warm_up(connections, first, directory)
    waiting, *idle, busy = connections
    failures = []
    blocked = threading.Thread(target=guarded, args=(failures, 'waiting', wait, waiting, first))
    blocked.start()
    transfer = Transfer(busy, directory, least)
    with open(name + '.up', 'w', encoding='ascii'):
        pass
    while not os.path.exists(directory + '/over'):
        time.sleep(0.02)
    begin = time.monotonic()
    for connection in idle:
        guarded(failures, 'idle', exchange, connection, first)
    if first:
        guarded(failures, 'waiting', waiting.sendall, MORE)
    blocked.join()
    print(f'idle connections took {time.monotonic() - begin:.3f} s')
    transfer.join()
    print(f'{transfer.sent} bytes sent, {transfer.got} received')
    failures += transfer.failures
    for failure in failures:
        print(failure)
    if not failures:
        print('all right')


def main():
    """The command line."""
    what, *rest = sys.argv[1:]
    connections = []
    if what == 'serve':
        port, directory, least = rest
        with socket.create_server(('0.0.0.0', int(port))) as listener:
            while len(connections) < CONNECTIONS:
                connections.append(listener.accept()[0])
    else:
        host, port, directory, least = rest
        while len(connections) < CONNECTIONS:
            connections.append(socket.create_connection((host, int(port))))
    run(connections, what != 'serve', directory, int(least))


main()
