"""Messages there and back by the C library's functions, of which none that succeeds may change errno.

  errno_programs.py serve PORT
  errno_programs.py call HOST PORT
"""
import ctypes
import select
import socket
import sys

MESSAGES = 3000
SIZE = 140
library = ctypes.CDLL(None, use_errno=True)


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Msghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("pieces", ctypes.POINTER(Iovec)),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class Pollfd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class EpollEvent(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("events", ctypes.c_uint), ("data", ctypes.c_uint64)]


def made(name, *arguments):
    """Makes a call, which must succeed."""
    ctypes.set_errno(0)
    result = getattr(library, name)(*arguments)
    error = ctypes.get_errno()
    if result < 0:
        raise SystemExit(f"{name}: errno {error}")
    if error != 0:
        raise SystemExit(f"{name} has succeeded and changed errno to {error}")
    return result


class Ends:
    """One end of the connection."""

    def __init__(self, connection):
        self.fd = connection.fileno()
        self.memory = ctypes.create_string_buffer(SIZE)
        self.epoll = select.epoll()
        self.epoll.register(self.fd, select.EPOLLIN)

    def send(self, number):
        address = ctypes.addressof(self.memory)
        piece = Iovec(address, SIZE)
        message = Msghdr(pieces=ctypes.pointer(piece), count=1)
        sent = [lambda: made("send", self.fd, self.memory, SIZE, socket.MSG_DONTWAIT),
                lambda: made("write", self.fd, self.memory, SIZE),
                lambda: made("writev", self.fd, ctypes.byref(piece), 1),
                lambda: made("sendmsg", self.fd, ctypes.byref(message), 0)][number % 4]()
        if sent != SIZE:
            raise SystemExit(f"{sent} bytes were sent")

    def receive(self, number):
        got = 0
        while got < SIZE:
            if number % 3 == 0:
                made("poll", ctypes.byref(Pollfd(self.fd, select.POLLIN, 0)), 1, -1)
            elif number % 3 == 1:
                made("epoll_wait", self.epoll.fileno(), ctypes.byref(EpollEvent()), 1, -1)
            got += made(*[("recv", self.fd, self.memory, SIZE - got, 0), ("read", self.fd, self.memory, SIZE - got)][number % 2])


def main():
    if sys.argv[1] == "serve":
        with socket.create_server(("0.0.0.0", int(sys.argv[2]))) as listener:
            connection, _ = listener.accept()
    else:
        connection = socket.create_connection((sys.argv[2], int(sys.argv[3])))
    ends = Ends(connection)
    for number in range(MESSAGES):
        if sys.argv[1] != "serve":
            ends.send(number)
        ends.receive(number)
        if sys.argv[1] == "serve":
            ends.send(number)
    made("close", connection.detach())
    print("done")


main()
