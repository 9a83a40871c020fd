#!/usr/bin/python3
"""Many connections, one after the other, of a few questions and answers each.

    exchanges.py serve PORT
    exchanges.py HOST PORT CONNECTIONS EXCHANGES      prints how long all of them took: "ms FIGURE"
"""

import socket
import sys
import time

PIECE = b'0123456789abcdef'


def serve(port):
    """Echoes."""
    with socket.create_server(('0.0.0.0', int(port)), backlog=128) as listener:
        while True:
            connection = listener.accept()[0]
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while piece := connection.recv(65536):
                    connection.sendall(piece)


def ask(host, port, connections, exchanges):
    """Asks, and times it."""
    begin = time.monotonic()
    for _ in range(int(connections)):
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(int(exchanges)):
                connection.sendall(PIECE)
                answer = b''
                while len(answer) < len(PIECE):
                    piece = connection.recv(len(PIECE) - len(answer))
                    if not piece:
                        sys.exit('the server has closed the connection')
                    answer += piece
                if answer != PIECE:
                    sys.exit('the answer is not the question')
    print(f'ms {1e3 * (time.monotonic() - begin):.3f}')


if __name__ == '__main__':
    serve(sys.argv[2]) if sys.argv[1] == 'serve' else ask(*sys.argv[1:])
