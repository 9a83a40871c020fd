"""A stream of messages whose packets are counted from outside.

  counted_programs.py serve PORT SIZE MESSAGES
                                 sends bytes back until an empty line, takes the messages, and answers
  counted_programs.py call HOST PORT SIZE MESSAGES FOLDER
                                 puts its number into FOLDER/call.pid, and exchanges bytes until FOLDER/open is there. Then it
                                 makes FOLDER/ready, waits for FOLDER/begin, sends the messages and waits for the answer,
                                 makes FOLDER/done and waits for FOLDER/end
"""
import os
import socket
import sys

import signal_files


def receive(connection, size):
    got = b""
    while len(got) < size:
        more = connection.recv(size - len(got))
        if not more:
            raise SystemExit("the other end has left")
        got += more
    return got


def serve(port, size, messages):
    with socket.create_server(("0.0.0.0", port)) as listener:
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        byte = b""
        while byte != b"\n":
            byte = receive(connection, 1)
            connection.sendall(byte)
        for _ in range(messages):
            receive(connection, size)
        connection.sendall(b"!")
        connection.recv(1)


def call(host, port, size, messages, folder):
    message = bytes(size)
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        signal_files.make(folder, "call.pid", str(os.getpid()))
        while not signal_files.is_there(folder, "open"):
            connection.sendall(b".")
            receive(connection, 1)
        connection.sendall(b"\n")
        receive(connection, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        signal_files.make(folder, "ready")
        signal_files.wait_for(folder, "begin")
        for _ in range(messages):
            connection.sendall(message)
        receive(connection, 1)
        signal_files.make(folder, "done")
        signal_files.wait_for(folder, "end")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*map(int, sys.argv[2:]))
    else:
        call(sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6])
