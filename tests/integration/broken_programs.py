#!/usr/bin/python3
"""Two ends of a connection that verify each byte, while a test breaks what carries it.

    broken_programs.py serve PORT ROLE DIRECTORY
    broken_programs.py call HOST PORT ROLE DIRECTORY

stream   both ends send and receive until DIRECTORY/end is there, and then to the end of the other's stream
burst    sends what is taken within a moment when DIRECTORY/go is there, and ends; the number is put into
         DIRECTORY/burst
sink     receives to the end of the stream, which must have as many bytes as a burst
counts   does whatever libsovia counts; counted, its peer, reads slowly
SIGUSR1: fork(), SIGUSR2: system("true"); the milliseconds it took are printed.
The program's number is put into DIRECTORY/serve.pid or call.pid.
"""

import mmap
import os
import random
import signal
import socket
import sys
import threading
import time

import thread_failures  # noqa: F401  pylint: disable=unused-import

PERIOD = 1_000_003
PATTERN = random.Random(1).randbytes(PERIOD) * 2


def pattern(offset, count):
    """Those bytes of the stream."""
    return PATTERN[offset % PERIOD:offset % PERIOD + count]


def receive_all(connection):
    """To the end of the stream; bytes."""
    got = 0
    while piece := connection.recv(100_000):
        assert piece == pattern(got, len(piece)), f'other bytes after {got}'
        got += len(piece)
    return got


def stream(connection, directory):
    """Both directions at once."""
    received = []

    def reader():
        received.append(receive_all(connection))

    thread = threading.Thread(target=reader)
    thread.start()
    numbers = random.Random(os.getpid())
    sent = 0
    while not os.path.exists(directory + '/end'):
        piece = pattern(sent, numbers.choice((1, 100, 3000, 40_000, 300_000)))
        connection.sendall(piece)
        sent += len(piece)
        time.sleep(numbers.choice((0, 0, 0.001, 0.01)))
    connection.shutdown(socket.SHUT_WR)
    thread.join()
    assert received and received[0] > 0, 'nothing has come'


def burst(connection, directory):
    """Sends at once what is taken."""
    # Both ends have their lane by then.
    for _ in range(100):
        connection.sendall(b'x')
        assert connection.recv(1) == b'x'
        time.sleep(0.005)
    with open(directory + '/ready', 'w', encoding='ascii'):
        pass
    while not os.path.exists(directory + '/go'):
        time.sleep(0.01)
    connection.setblocking(False)
    sent = 0
    try:
        while sent < 700_000:
            sent += connection.send(pattern(sent, 10_000))
    except BlockingIOError:
        pass
    with open(directory + '/burst', 'w', encoding='ascii') as file:
        print(sent, file=file)


def sink(connection, directory):
    """Counts it."""
    for _ in range(100):
        assert connection.recv(1) == b'x'
        connection.sendall(b'x')
    got = receive_all(connection)
    with open(directory + '/burst', encoding='ascii') as file:
        sent = int(file.read())
    assert got == sent > 100_000, f'{got} of {sent} bytes'


def exchange(connection, first, count):
    """Questions and answers."""
    for _ in range(count):
        if first:
            connection.sendall(b'0123456789')
        assert len(connection.recv(10, socket.MSG_WAITALL)) == 10
        if not first:
            connection.sendall(b'0123456789')


def counts(connection, directory):
    """Small sends that wait for others, large ones, more than the window takes, a fork with unread bytes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        exchange(connection, True, 200)
        time.sleep(0.2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
    for _ in range(5):
        for _ in range(100):
            connection.send(b'0123456789')
        time.sleep(0.05)
    large = bytes(3_000_000)
    for _ in range(3):
        connection.sendall(large)
    # More regions than are kept registered.
    maps = [mmap.mmap(-1, 40_000) for _ in range(100)]
    for each in maps:
        connection.sendall(each)
    connection.sendall(b'.')
    time.sleep(0.5)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    assert len(connection.recv(1000, socket.MSG_WAITALL)) == 1000
    with open(directory + '/ready', 'w', encoding='ascii'):
        pass
    while not os.path.exists(directory + '/end'):
        time.sleep(0.01)


def counted(connection, directory):
    """The other end of it."""
    del directory
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        exchange(connection, False, 200)
        time.sleep(0.2)
    time.sleep(1)
    while not connection.recv(1_000_000).endswith(b'.'):
        pass
    connection.sendall(bytes(1000))
    try:
        connection.recv(1)
    except ConnectionResetError:
        pass


def on_signal(number, _):
    """Another process for a moment."""
    begin = time.monotonic()
    if number == signal.SIGUSR1:
        if os.fork() == 0:
            time.sleep(0.3)
            os._exit(0)
    else:
        os.system('true')
    print('ms', round((time.monotonic() - begin) * 1000), flush=True)


def main():
    """The command line."""
    what, *rest = sys.argv[1:]
    directory = rest[-1]
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGUSR2, on_signal)
    if what == 'serve':
        with socket.create_server(('0.0.0.0', int(rest[0]))) as listener:
            connection = listener.accept()[0]
    else:
        connection = socket.create_connection((rest[0], int(rest[1])), timeout=20)
        connection.settimeout(None)
    with open(f'{directory}/{what}.pid', 'w', encoding='ascii') as number:
        print(os.getpid(), file=number)
    {'stream': stream, 'burst': burst, 'sink': sink, 'counts': counts,
     'counted': counted}[rest[-2]](connection, directory)
    print('all right', flush=True)


main()
