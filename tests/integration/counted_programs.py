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
import time


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
    def make(name, text=""):
        path = os.path.join(folder, name)
        with open(path + "~", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(path + "~", path)

    def is_there(name):
        return os.path.exists(os.path.join(folder, name))

    def wait_for(name):
        while not is_there(name):
            time.sleep(0.02)

    message = bytes(size)
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        make("call.pid", str(os.getpid()))
        while not is_there("open"):
            connection.sendall(b".")
            receive(connection, 1)
        connection.sendall(b"\n")
        receive(connection, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        make("ready")
        wait_for("begin")
        for _ in range(messages):
            connection.sendall(message)
        receive(connection, 1)
        make("done")
        wait_for("end")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*map(int, sys.argv[2:]))
    else:
        call(sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6])
