#!/usr/bin/python3
"""A receiver that runs out of something while bytes are on their way: it gets all of them later, as with TCP.

    scarce_programs.py serve PORT descriptors            it may open no descriptor while it receives
    scarce_programs.py serve PORT accepts                nor accept connections that have been written to
    scarce_programs.py serve PORT disk DIRECTORY         it stops when a full file system takes no more, and goes on
    scarce_programs.py call HOST PORT COUNT              COUNT connections at once, each with its own bytes

The server ends with status 0 if each connection brought the bytes of its number and then its end.
"""

import hashlib
import itertools
import os
import resource
import socket
import struct
import sys
import threading
import time

import thread_failures  # noqa: F401  pylint: disable=unused-import

COUNT = 8
BYTES = 1_500_000
WARM_UP = 0.6  # seconds, in which the connection gets a lane
PIECE = 10_000
MOST = 64  # descriptors, when there are to be no more
HEAD = struct.Struct('>I')


def bytes_of(number):
    return hashlib.shake_128(HEAD.pack(number)).digest(BYTES)


def receive_exactly(connection, count):
    data = connection.recv(count, socket.MSG_WAITALL)
    if len(data) != count:
        raise EOFError(f'{len(data)} of {count} bytes')
    return data


def begin(connection):
    """The head, and what warms the connection up."""
    number = HEAD.unpack(receive_exactly(connection, HEAD.size))[0]
    echoed = b'w'
    while echoed[:1] == b'w':
        echoed = receive_exactly(connection, 100)
        connection.sendall(echoed)
    return number


def receive_all(connection):
    data = bytearray()
    while piece := connection.recv(PIECE):
        data += piece
    return bytes(data)


def take_all_descriptors():
    """Returns those that it has taken."""
    taken = []
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, hard))
    try:
        while True:
            taken.append(os.open('/dev/null', os.O_RDONLY))
    except OSError as error:
        print('open:', error.strerror, flush=True)
    return taken


def give_back(taken):
    for descriptor in taken:
        os.close(descriptor)


def store(directory, data):
    """Writes to a file system that is full until `directory`/filler goes away."""
    path = os.path.join(directory, 'received')
    waited = False
    with open(path, 'wb', buffering=0) as file:
        done = 0
        while done < len(data):
            try:
                done += file.write(data[done:done + PIECE])
            except OSError:
                waited = True
                time.sleep(0.2)
                os.unlink(os.path.join(directory, 'filler'))
    with open(path, 'rb') as file:
        return file.read() == data, waited


def serve(port, what, directory):
    listener = socket.create_server(('', port), backlog=64)
    if what == 'accepts':
        first, _ = listener.accept()
        number = begin(first)
        taken = take_all_descriptors()
        time.sleep(0.5)  # the others connect and write
        for _ in range(3):
            try:
                listener.accept()
                sys.exit('a connection was accepted')
            except OSError as error:
                print('accept:', error.strerror, flush=True)
        give_back(taken)
        connections = [(first, number)]
        while len(connections) < COUNT:
            connection, _ = listener.accept()
            connections.append((connection, begin(connection)))
    else:
        taken, connections = [], []
        while len(connections) < COUNT:
            connection, _ = listener.accept()
            connections.append((connection, begin(connection)))
        if what == 'descriptors':
            taken = take_all_descriptors()
    for connection, number in connections:
        data = receive_all(connection)
        if data != bytes_of(number):
            sys.exit(f'connection {number}: {len(data)} bytes, or wrong ones')
        if what != 'descriptors':
            connection.close()  # it gives no descriptor back
        if what == 'disk' and number == 0 and store(directory, data) != (True, True):
            sys.exit('the file is wrong, or was never short of room')
    if what == 'descriptors':
        give_back(taken)
    print('all have come', flush=True)


def call_one(host, port, number, failures):
    try:
        with socket.create_connection((host, port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(HEAD.pack(number))
            end = time.monotonic() + WARM_UP
            for sign in itertools.chain(iter(lambda: b'w' if time.monotonic() < end else b'e', b'e'), [b'e']):
                connection.sendall(sign * 100)
                receive_exactly(connection, 100)
            connection.sendall(bytes_of(number))
    except (OSError, EOFError) as error:
        failures.append(f'{number}: {error}')


def call(host, port, count):
    failures = []
    threads = [threading.Thread(target=call_one, args=(host, port, i, failures)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit('\n'.join(failures))


if sys.argv[1] == 'serve':
    serve(int(sys.argv[2]), sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None)
else:
    call(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
