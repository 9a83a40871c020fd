#!/usr/bin/python3
"""A program that sends by a call that the library does not see, and one that watches the kernel's connection.

    unseen_programs.py serve PORT        echoes; says how each connection has ended
    unseen_programs.py past HOST PORT    exchanges, then sends by a system call of its own, and waits for an answer
    unseen_programs.py wait HOST PORT FILE
                                         exchanges, writes its port to FILE, and says how a receive ends
    unseen_programs.py long HOST PORT SECONDS
                                         exchanges now and then for so long, and closes
"""
import ctypes
import errno
import mmap
import socket
import sys
import time

# send(fd, data, bytes) by an instruction of the program's own: mov eax, 1; syscall; ret
WRITE = bytes.fromhex('b8010000000f05c3')


def exchange(connection):
    """Until the connection has a lane."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    route = ctypes.CDLL(None).sovia_route
    end = time.monotonic() + 20
    while route(connection.fileno()) != 0:
        if time.monotonic() > end:
            sys.exit('there is no lane')
        for _ in range(20):
            connection.sendall(b'x' * 16)
            got = 0
            while got < 16:
                got += len(connection.recv(16 - got))
        time.sleep(0.005)


def ending(receive):
    try:
        return 'end' if receive() == b'' else 'answer'
    except OSError as failure:
        return errno.errorcode[failure.errno]


def serve(port):
    listener = socket.create_server(('0.0.0.0', port))
    while True:
        connection = listener.accept()[0]
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while piece := connection.recv(65536):
                connection.sendall(piece)
            print('end', flush=True)
        except OSError as failure:
            print(errno.errorcode[failure.errno], flush=True)
        connection.close()


def past(host, port):
    connection = socket.create_connection((host, port))
    exchange(connection)
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(WRITE)
    write = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)(
        ctypes.addressof(ctypes.c_char.from_buffer(code)))
    write(connection.fileno(), b'by the kernel', 13)
    connection.settimeout(60)
    print(ending(lambda: connection.recv(64)))


def wait(host, port, file):
    connection = socket.create_connection((host, port))
    exchange(connection)
    with open(file, 'w', encoding='ascii') as to:
        to.write(f'{connection.getsockname()[1]}\n')
    connection.settimeout(60)
    print(ending(lambda: connection.recv(64)))


def exchange_for(host, port, seconds):
    connection = socket.create_connection((host, port))
    exchange(connection)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.sendall(b'x')
        if not connection.recv(1):
            sys.exit('the end came too early')
        time.sleep(0.1)


if sys.argv[1] == 'serve':
    serve(int(sys.argv[2]))
elif sys.argv[1] == 'past':
    past(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == 'wait':
    wait(sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    exchange_for(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
