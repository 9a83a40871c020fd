"""A server that does as sshd: its connection's process is executed anew, forks, and forbids itself system calls.

    sandbox_programs.py serve PORT    one connection; prints how the child that serves it has ended
    sandbox_programs.py call HOST PORT
"""
import ctypes
import os
import select
import socket
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
KILL_PROCESS, ALLOW = 0x80000000, 0x7fff0000
RT_SIGACTION, CLONE3 = 13, 435  # x86-64
FORBIDDEN = (RT_SIGACTION, CLONE3)
EXCHANGES = 50


class Filter(ctypes.Structure):
    """struct sock_fprog"""
    _fields_ = [('count', ctypes.c_ushort), ('code', ctypes.c_char_p)]


def forbid(libc):
    """A filter that ends the process at one of these calls."""
    code = struct.pack('=HBBI', 0x20, 0, 0, 0)  # loads the number of the call
    for number in FORBIDDEN:
        code += struct.pack('=HBBI', 0x15, 0, 1, number) + struct.pack('=HBBI', 0x06, 0, 0, KILL_PROCESS)
    code += struct.pack('=HBBI', 0x06, 0, 0, ALLOW)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = Filter(len(code) // 8, code)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'no filter')


def answer(connection):
    """In the sandbox. select.poll() is poll(), whose arguments the library copies."""
    at = select.poll()
    at.register(connection, select.POLLIN)
    while True:
        at.poll()
        piece = connection.recv(65536)
        if not piece:
            os._exit(0)
        connection.sendall(piece[:1])


def serve(port):
    with socket.create_server(('0.0.0.0', port)) as listener:
        connection = listener.accept()[0]
        os.dup2(connection.fileno(), 3)
        os.execv(sys.executable, [sys.executable, __file__, 'inherited'])


def serve_inherited():
    libc = ctypes.CDLL(None, use_errno=True)
    connection = socket.socket(fileno=3)
    child = os.fork()
    if child == 0:
        forbid(libc)
        answer(connection)
    connection.close()
    status = os.waitpid(child, 0)[1]
    print('the child has ended with status', status, flush=True)
    sys.exit(status != 0)


def call(host, port):
    with socket.create_connection((host, port), 20) as connection:
        for _ in range(EXCHANGES):
            connection.sendall(b'y' * 1000)
            got = connection.recv(1)
            assert got == b'y', 'the server has left'
    print('all right')


if sys.argv[1] == 'serve':
    serve(int(sys.argv[2]))
elif sys.argv[1] == 'inherited':
    serve_inherited()
else:
    call(sys.argv[2], int(sys.argv[3]))
