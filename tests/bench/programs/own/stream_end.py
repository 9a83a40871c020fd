#!/usr/bin/python3
"""How long after the writer's close() the reader hears of the end of a stream in which nothing was sent back.

    stream_end.py serve PORT
    stream_end.py HOST PORT BYTES COUNT      prints the median of so many connections: "ms FIGURE"

The reader tells by a datagram when it has read the end, so that no byte goes back in the stream. Both ends read one
clock, as both run on one machine.
"""

import socket
import statistics
import struct
import sys
import time

PAUSE = 0.2  # seconds
TIME = struct.Struct('>dQ')  # when, and how many bytes came before


def serve(port):
    """Reads streams to their ends."""
    with socket.create_server(('0.0.0.0', int(port)), backlog=16) as listener:
        told = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        while True:
            connection, (host, peer_port) = listener.accept()
            with connection:
                count = 0
                while piece := connection.recv(65536):
                    count += len(piece)
                told.sendto(TIME.pack(time.monotonic(), count), (host, peer_port))


def write(host, port, size, count):
    """Writes streams, with a pause between two, in which what the last one left behind is done. The datagram comes to the
    port of the connection's own end."""
    size, delays = int(size), []
    for _ in range(int(count)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as told, \
                socket.create_connection((host, int(port))) as connection:
            told.bind(connection.getsockname())
            told.settimeout(20)
            left = size
            while left > 0:
                left -= connection.send(b'x' * min(left, 16384))
            closed = time.monotonic()
            connection.close()
            ended, came = TIME.unpack(told.recv(TIME.size))
            if came != size:
                sys.exit(f'{came} of {size} bytes came')
            delays.append(ended - closed)
        time.sleep(PAUSE)
    print(f'ms {1e3 * max(0, statistics.median(delays)):.3f}')


if __name__ == '__main__':
    serve(sys.argv[2]) if sys.argv[1] == 'serve' else write(*sys.argv[1:])
