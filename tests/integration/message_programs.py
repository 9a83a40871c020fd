#!/usr/bin/python3
"""Programs that use connections which keep the boundaries of messages (SOVIA_MESSAGES), over whatever route.

    message_programs.py serve PORT       echoes messages for one connection, by calls that wait
    message_programs.py select PORT      the same by calls that don't wait
    message_programs.py call HOST PORT ENOUGH
                                         sends messages of many lengths and checks the answers, at first until there
                                         is a file ENOUGH
"""

import os
import select
import socket
import struct
import sys

SOL_SOVIA, SOVIA_MESSAGES = 21327, 1
WARM_UP = 40
LONGEST = 1_000_000
LENGTHS = [1, 4, 2000, 16383, 16384, 32768, 65536, 65537, 300_000, LONGEST]
ROUNDS = 5


def pattern(length, seed):
    """Bytes that differ from those of other messages, and from place to place."""
    piece = bytes((i * 31 + seed * 17 + (i >> 8)) & 0xff for i in range(min(length, 8192)))
    return (piece * (length // len(piece) + 1))[:length]


def listen(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(SOL_SOVIA, SOVIA_MESSAGES, 1)
    listener.bind(('0.0.0.0', int(port)))
    listener.listen()
    return listener


def serve(port):
    connection = listen(port).accept()[0]
    assert connection.getsockopt(SOL_SOVIA, SOVIA_MESSAGES) == 1
    count = 0
    while message := connection.recv(LONGEST + 1):
        connection.sendall(message)
        count += 1
    print('echoed', count)


def serve_by_select(port):
    connection = listen(port).accept()[0]
    connection.setblocking(False)
    poller = select.epoll()
    poller.register(connection, select.EPOLLIN)
    count = 0
    while True:
        poller.poll()
        try:
            message = connection.recv(LONGEST + 1)
        except BlockingIOError:
            continue
        if not message:
            break
        while True:
            try:
                assert connection.send(message) == len(message)
                break
            except BlockingIOError:
                select.select([], [connection], [])
        count += 1
    print('echoed', count)


def set_limit(connection, microseconds):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('qq', 0, microseconds))


def exchange(connection, buffer, length, seed):
    message = pattern(length, seed)
    assert connection.send(message) == length
    got = connection.recv_into(buffer)
    assert got == length and buffer[:got] == message, (length, got)


def call(host, port, enough):
    connection = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, socket.IPPROTO_TCP)
    connection.connect((host, int(port)))
    buffer = bytearray(LONGEST + 1)
    warm_up = 0
    while warm_up < WARM_UP or not os.path.exists(enough):
        exchange(connection, buffer, 65536 if warm_up % 2 else 100, warm_up)
        warm_up += 1
    for i in range(ROUNDS):
        for length in LENGTHS:
            exchange(connection, buffer, length, i)
    # Cut to the buffer: its rest is dropped, and the next one is whole.
    for length in (100, 65536):
        for answer in (10, length - 1):
            message = pattern(length, 3)
            connection.send(message)
            view = memoryview(buffer)[:answer]
            got, _, flags, _ = connection.recvmsg_into([view])
            assert (got, flags) == (answer, socket.MSG_TRUNC), (got, flags)
            assert view == message[:answer]
            exchange(connection, buffer, 5, 9)
    # Receives that end before anything comes, and what comes after them.
    for _ in range(3):
        set_limit(connection, 20_000)
        try:
            connection.recv_into(buffer)
            raise AssertionError('something has come')
        except BlockingIOError:
            pass
        set_limit(connection, 0)
        for length in (65536, 100, 65536):
            exchange(connection, buffer, length, 4)
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(10) == b''
    print('all right')


{'serve': serve, 'call': call, 'select': serve_by_select}[sys.argv[1]](*sys.argv[2:])
