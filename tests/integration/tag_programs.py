#!/usr/bin/python3
"""Programs that put to a buffer of their peer's, and get from it (sovia_tag and the others), over whatever route.

    tag_programs.py serve PORT              has the buffer
    tag_programs.py call HOST PORT ENOUGH   puts, gets and checks, at first until there is a file ENOUGH
"""

import ctypes
import errno
import os
import socket
import sys

SOL_SOVIA, SOVIA_MESSAGES = 21327, 1
PUT, GET = 1, 2
TAG_BYTES = 32
BYTES = 1_000_000
WARM_UP = 20

# Those of the library that `sovia run` has put before the C library.
sovia = ctypes.CDLL(None, use_errno=True)
for call in (sovia.sovia_put, sovia.sovia_get):
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
sovia.sovia_tag.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p]
sovia.sovia_untag.argtypes = [ctypes.c_int, ctypes.c_char_p]
sovia.sovia_done.argtypes = [ctypes.c_int, ctypes.c_int]


def result(value):
    return -ctypes.get_errno() if value < 0 else value


def serve(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(SOL_SOVIA, SOVIA_MESSAGES, 1)
    listener.bind(('0.0.0.0', int(port)))
    listener.listen()
    connection = listener.accept()[0]
    buffer = ctypes.create_string_buffer(BYTES)
    tags = []
    for access in (PUT | GET, GET):
        tag = ctypes.create_string_buffer(TAG_BYTES)
        assert result(sovia.sovia_tag(connection.fileno(), buffer, BYTES, access, tag)) == 0
        tags.append(tag.raw)
    connection.sendall(b''.join(tags))
    while message := connection.recv(100):
        if message == b'withdraw':
            assert result(sovia.sovia_untag(connection.fileno(), tags[0])) == 0
        connection.sendall(buffer.raw)
    print('served')


class Peer:
    """The buffer at the other end of a connection."""

    def __init__(self, connection):
        self.connection = connection
        self.fd = connection.fileno()
        tags = connection.recv(100)
        self.tag, self.read_only = tags[:TAG_BYTES], tags[TAG_BYTES:]
        self.content = bytearray(BYTES)
        self.got = ctypes.create_string_buffer(BYTES)

    def done(self):
        return result(sovia.sovia_done(self.fd, -1))

    def put(self, offset, data):
        assert result(sovia.sovia_put(self.fd, self.tag, offset, data, len(data))) == 0
        assert self.done() == 0
        self.content[offset:offset + len(data)] = data

    def check(self):
        assert result(sovia.sovia_get(self.fd, self.read_only, 0, self.got, BYTES)) == 0
        assert self.done() == 0
        assert self.got.raw == self.content

    def ask(self, what):
        self.connection.sendall(what)
        assert self.connection.recv(BYTES + 1) == self.content


def pattern(length, seed):
    return bytes((i * 31 + seed * 17 + (i >> 8)) & 0xff for i in range(min(length, 8192))) * (length // 8192 + 1)


def call_peer(host, port, enough):
    connection = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, socket.IPPROTO_TCP)
    connection.connect((host, int(port)))
    peer = Peer(connection)
    rounds = 0
    while rounds < WARM_UP or not os.path.exists(enough):
        peer.put(rounds * 37 % 1000, pattern((1, 300, 40_000, 500_000)[rounds % 4], rounds)[:500_000])
        peer.check()
        peer.ask(b'how is it?')
        rounds += 1
    # Access outside the buffer, or without the right, is refused at once.
    data = bytes(BYTES)
    assert result(sovia.sovia_put(peer.fd, peer.tag, 1, data, BYTES)) == -errno.ERANGE
    assert result(sovia.sovia_put(peer.fd, peer.read_only, 0, data, 1)) == -errno.EACCES
    # Where the tag has been withdrawn, by the peer.
    peer.ask(b'withdraw')
    assert result(sovia.sovia_put(peer.fd, peer.tag, 0, data, BYTES)) == 0
    assert peer.done() == -errno.EACCES
    peer.check()
    peer.ask(b'end')
    print('good', rounds)


if __name__ == '__main__':
    {'serve': serve, 'call': call_peer}[sys.argv[1]](*sys.argv[2:])
