#!/usr/bin/python3
"""Many connections, one after the other, of a few questions and answers each.

    exchanges.py serve PORT [ANSWER] [forks]
    exchanges.py HOST PORT CONNECTIONS EXCHANGES [ANSWER]      prints how long all of them took: "ms FIGURE"

ANSWER is the bytes of an answer, as many as those of a question if it is not given. With `forks` a child serves each
connection.
"""

import os
import signal
import socket
import sys
import time

PIECE = b'0123456789abcdef'


def answer_of(size):
    """The answer to a question."""
    size = int(size)
    return (PIECE * (size // len(PIECE) + 1))[:size]


def receive(connection, size):
    """So many bytes, or none at the end."""
    data = b''
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return b''
        data += piece
    return data


def answer_all(connection, answer):
    """Answers a connection to its end."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while receive(connection, len(PIECE)):
        connection.sendall(answer)


def serve(port, size=len(PIECE), forks=None):
    """Answers."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    answer = answer_of(size)
    with socket.create_server(('0.0.0.0', int(port)), backlog=128) as listener:
        while True:
            connection = listener.accept()[0]
            with connection:
                if not forks:
                    answer_all(connection, answer)
                elif os.fork() == 0:
                    listener.close()
                    answer_all(connection, answer)
                    connection.close()
                    os._exit(0)


def ask(host, port, connections, exchanges, size=len(PIECE)):
    """Asks, and times it."""
    answer = answer_of(size)
    begin = time.monotonic()
    for _ in range(int(connections)):
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(int(exchanges)):
                connection.sendall(PIECE)
                if receive(connection, len(answer)) != answer:
                    sys.exit('the answer is another one, or the server has closed the connection')
    print(f'ms {1e3 * (time.monotonic() - begin):.3f}')


if __name__ == '__main__':
    serve(*sys.argv[2:]) if sys.argv[1] == 'serve' else ask(*sys.argv[1:])
