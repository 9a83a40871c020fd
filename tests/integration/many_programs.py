#!/usr/bin/python3
"""Many connections, and connections whose other end is killed.

    many_programs.py open HOST PORT COUNT [ROUNDS]    COUNT sockets at once on an echo server
    many_programs.py short HOST PORT COUNT EXCHANGES  COUNT connections, one after the other
    many_programs.py steady HOST PORT COUNT PATIENCE  COUNT connections that live a moment, some at once
    many_programs.py serve PORT ROLE FILE             one connection, until it ends
    many_programs.py call HOST PORT ROLE FILE         the same from the other side

ROLE is send, receive, answer or wait; the program's number is put into FILE.  What a connection's end may
look like when the peer has been killed is status 0, all else 1.
"""

import concurrent.futures
import os
import random
import selectors
import socket
import sys
import time

ROUNDS = 8


def receive(connection, count):
    """So many bytes."""
    got = b''
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise ConnectionResetError('it ended too early')
        got += more
    return got


def open_many(host, port, count, rounds=ROUNDS):
    """In each round every socket sends something, and all that comes back is read as it comes."""
    numbers = random.Random(count)
    selector = selectors.DefaultSelector()
    connections = []
    for _ in range(count):
        connection = socket.create_connection((host, port), timeout=20)
        connection.setblocking(False)
        connections.append(connection)
        selector.register(connection, selectors.EVENT_READ)
    for _ in range(rounds):
        left = {}
        for connection in connections:
            left[connection] = numbers.randbytes(numbers.randint(1, 300))
            assert connection.send(left[connection]) == len(left[connection]), 'it did not take it all'
        while left:
            happened = selector.select(20)
            assert happened, f'{len(left)} of {count} wait for an answer'
            for key, _ in happened:
                wanted = left.get(key.fileobj, b'')
                got = key.fileobj.recv(len(wanted) + 1)
                assert got and wanted.startswith(got), 'something else has come back'
                if got == wanted:
                    del left[key.fileobj]
                else:
                    left[key.fileobj] = wanted[len(got):]
    for connection in connections:
        connection.close()


def short(host, port, count, exchanges):
    """A question and its answer, so many times, on each."""
    for number in range(count):
        with socket.create_connection((host, port), timeout=20) as connection:
            for exchange in range(exchanges):
                question = b'%d.%d' % (number, exchange)
                connection.sendall(question)
                assert receive(connection, len(question)) == question, 'another answer has come back'


def steady(host, port, count, patience):
    """Each lives long enough to get a lane; on a busy machine that takes more patience."""
    workers = 10

    def work():
        for _ in range(count // workers):
            with socket.create_connection((host, port), timeout=20) as connection:
                for pause in (0, 0, 0, 0.02, 0.05, 0.1, 0):
                    for number in range(4):
                        question = b'%d' % number
                        connection.sendall(question)
                        assert receive(connection, len(question)) == question, 'another answer has come back'
                    time.sleep(pause * patience)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()


def act(connection, role):
    """Does not return as long as the peer lives."""
    piece = bytes(10_000)
    if role == 'answer':
        connection.sendall(b'first')
    while True:
        if role == 'send':
            connection.sendall(piece)
        elif not (got := connection.recv(65536)):
            return
        elif role == 'answer':
            connection.sendall(got)


def until_killed(connection, role, file):
    """How it ends."""
    with open(file, 'w', encoding='ascii') as number:
        print(os.getpid(), file=number)
    try:
        act(connection, role)
        print('the stream has ended')
    except (ConnectionResetError, BrokenPipeError) as error:
        print(error)


def main():
    """The command line."""
    what, *rest = sys.argv[1:]
    if what == 'open':
        open_many(rest[0], *map(int, rest[1:]))
    elif what == 'short':
        short(rest[0], int(rest[1]), int(rest[2]), int(rest[3]))
    elif what == 'steady':
        steady(rest[0], int(rest[1]), int(rest[2]), int(rest[3]))
    elif what == 'serve':
        with socket.create_server(('0.0.0.0', int(rest[0]))) as listener:
            until_killed(listener.accept()[0], rest[1], rest[2])
    else:
        until_killed(socket.create_connection((rest[0], int(rest[1])), timeout=20), rest[2], rest[3])


main()
