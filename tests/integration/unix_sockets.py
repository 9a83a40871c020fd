#!/usr/bin/env python3
"""Which Unix sockets of a process take descriptors from others: unix_sockets.py PID

Closing such a socket closes what lies in its queue, and that lasts as long as the sender likes. A socket is safe
if it refuses descriptors (SO_PASSRIGHTS), if nothing can be received by it, if it is a datagram socket that
has no name, or one of a pair of streams, by which the agent's own threads return descriptors. Status 1 and a line for each that is not. --works: whether this kernel knows SO_PASSRIGHTS.
"""
import ctypes
import os
import select
import socket
import sys

SO_PASSRIGHTS = 83
PIDFD_GETFD = 438
libc = ctypes.CDLL(None, use_errno=True)


def refuses(sock):
    try:
        return sock.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS) == 0
    except OSError:
        return False


def listens(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 0


def receives(sock):
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return not any(events & (select.POLLRDHUP | select.POLLHUP) for _, events in poll.poll(0))


def sockets(pid):
    process = os.pidfd_open(pid)
    folder = f"/proc/{pid}/fd"
    for number in sorted(map(int, os.listdir(folder))):
        try:
            name = os.readlink(f"{folder}/{number}")
        except FileNotFoundError:
            continue
        if not name.startswith("socket:"):
            continue
        fd = libc.syscall(PIDFD_GETFD, process, number, 0)
        if fd < 0:
            continue  # closed since then
        # Given both, it asks for no name, which AF_XDP has none of.
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=fd)
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_UNIX:
            yield number, name, sock


def main():
    if sys.argv[1] == "--works":
        try:
            socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS)
            print("yes")
        except OSError:
            print("no")
        return 0
    seen, bad = 0, 0
    for number, name, sock in sockets(int(sys.argv[1])):
        seen += 1
        kind = socket.SocketKind(sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE))
        nameless = kind == socket.SOCK_DGRAM and not sock.getsockname()
        threads = kind == socket.SOCK_STREAM and not sock.getsockname() and not listens(sock)
        if refuses(sock) or nameless or threads or not receives(sock):
            continue
        bad += 1
        print(f"descriptor {number}, {name}, {kind.name} {sock.getsockname()!r}: takes descriptors")
    print(f"{seen} Unix sockets")
    return 1 if bad or not seen else 0


sys.exit(main())
