#!/usr/bin/python3
"""Processes that write and are killed at once, and what their peer gets.

    killed_programs.py serve PORT COUNT        tells of COUNT connections how they ended, a line for each
    killed_programs.py call HOST PORT COUNT    COUNT processes, one after the other
    killed_programs.py exits HOST PORT COUNT   as `call`, but they exit behind more than their peer takes at first
    killed_programs.py polls HOST PORT COUNT   as `exits`, but they look for an answer again and again, and are killed
    killed_programs.py exit HOST PORT PID      one that stops its peer, the process PID, before it writes, and exits

Each process writes one piece, many, or more than its peer takes at first, with TCP_NODELAY or without it. Its peer must
get all that was written, or a reset: the end of the stream without a byte that was written would be a lie.
"""

import os
import signal
import socket
import struct
import sys
import threading
import time

import thread_failures  # noqa: F401  pylint: disable=unused-import

HEAD = struct.Struct('>III')
PIECE = b'0123456789' * 100
WARM_UP = 60
PIECES = (1, 20, 700)
SLOW = 100 * len(PIECE)  # a peer that expects more begins to read late


def exchange(connection, first):
    """A question and an answer."""
    if first:
        connection.sendall(PIECE)
    assert len(connection.recv(len(PIECE), socket.MSG_WAITALL)) == len(PIECE)
    if not first:
        connection.sendall(PIECE)


def how_it_ended(connection):
    """In a word, behind how it was written."""
    with connection:
        warm_up, expected, at_once = HEAD.unpack(connection.recv(HEAD.size, socket.MSG_WAITALL))
        for _ in range(warm_up):
            exchange(connection, False)
        got = 0
        how = 'at once: ' if at_once else 'combined: '
        if expected > SLOW:
            how = 'more than fits: '
            time.sleep(0.3)
        try:
            while piece := connection.recv(100_000):
                got += len(piece)
        except ConnectionResetError:
            return how + 'reset'
        return how + ('all' if got == expected else f'short, {got} of {expected}')


def serve(port, count):
    """As many connections as that."""
    with socket.create_server(('0.0.0.0', int(port)), backlog=100) as listener:
        threads = []
        for _ in range(int(count)):
            connection = listener.accept()[0]
            threads.append(threading.Thread(target=lambda c=connection: print(how_it_ended(c), flush=True)))
            threads[-1].start()
        for thread in threads:
            thread.join()


def write(host, port, pieces, at_once, peer=None):
    """Returns the connection, so that it stays open."""
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, at_once)
    connection.sendall(HEAD.pack(WARM_UP, pieces * len(PIECE), at_once))
    for _ in range(WARM_UP):
        exchange(connection, True)
        time.sleep(0.001)
    if peer is not None:
        os.kill(peer, signal.SIGSTOP)
    for _ in range(pieces):
        connection.send(PIECE)
    return connection


def write_and_die(host, port, pieces, at_once):
    """In a process of its own."""
    _open = write(host, port, pieces, at_once)
    os.kill(os.getpid(), signal.SIGKILL)


def write_and_exit(host, port, peer):
    """More than the peer reads late, and less than waits for its credits."""
    _open = write(host, port, 300, 1, int(peer))


def write_and_poll(host, port):
    """Ends by the signal of an alarm, which comes while it polls."""
    connection = write(host, port, PIECES[-1], 1)
    connection.setblocking(False)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    while True:
        try:
            connection.recv(1)
        except BlockingIOError:
            pass


def child(function, *arguments):
    """Runs it in a process of its own, and returns the signal that has ended it."""
    number = os.fork()
    if number == 0:
        function(*arguments)
        sys.exit()
    return os.WTERMSIG(os.waitpid(number, 0)[1])


def call(host, port, count):
    """One after the other."""
    for number in range(int(count)):
        assert child(write_and_die, host, port, PIECES[number % 3], number // 3 % 2) == signal.SIGKILL


def exits(host, port, count):
    """One after the other."""
    for _ in range(int(count)):
        assert child(write, host, port, PIECES[-1], 1) == 0


def polls(host, port, count):
    """One after the other."""
    for _ in range(int(count)):
        assert child(write_and_poll, host, port) == signal.SIGALRM


def main():
    """The command line."""
    {'serve': serve, 'call': call, 'exits': exits, 'polls': polls, 'exit': write_and_exit}[sys.argv[1]](*sys.argv[2:])


main()
