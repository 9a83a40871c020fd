"""A TCP stream whose every byte is checked: the receiver tells the sender what hash it has.

  copy_stream.py receive ADDRESS PORT COUNT   serves so many senders, one after the other
  copy_stream.py send ADDRESS PORT BYTES SEED
"""
import hashlib
import random
import socket
import sys

PIECE = 1 << 20


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(address, port, count):
    with socket.create_server((address, port), family=family(address)) as server:
        print("waiting", flush=True)
        for _ in range(count):
            peer, _ = server.accept()
            with peer:
                digest = hashlib.sha256()
                while piece := peer.recv(PIECE):
                    digest.update(piece)
                peer.sendall(digest.digest())


def send(address, port, length, seed):
    numbers = random.Random(seed)
    digest = hashlib.sha256()
    with socket.create_connection((address, port), timeout=30) as to:
        left = length
        while left > 0:
            piece = numbers.randbytes(min(left, PIECE))
            digest.update(piece)
            to.sendall(piece)
            left -= len(piece)
        to.shutdown(socket.SHUT_WR)
        answer = b""
        while more := to.recv(64):
            answer += more
    return 0 if answer == digest.digest() else 1


if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    sys.exit(send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
