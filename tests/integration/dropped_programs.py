#!/usr/bin/env python3
"""A server that begins as root and gives up its rights, and its client.

dropped_programs.py server PORT HOW    listens, becomes user 65534 by HOW (setuid; seteuid, as an ftp server; none),
                                       then accepts and echoes
dropped_programs.py client HOST PORT FILE
                                       asks until FILE is there, and compares
"""
import os
import socket
import sys

USER = 65534


def become(how):
    if how == "setuid":
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)
    elif how == "seteuid":
        os.setgroups([])
        os.setegid(USER)
        os.seteuid(USER)


def serve(port, how):
    listener = socket.create_server(("", port))
    become(how)
    print("user", os.geteuid(), flush=True)
    while True:
        connection, _ = listener.accept()
        while data := connection.recv(4096):
            connection.sendall(data)
        connection.close()


def ask(host, port, file):
    connection = socket.create_connection((host, port))
    turns = 0
    while not os.path.exists(file):
        wanted = turns.to_bytes(8, "big") * 128
        connection.sendall(wanted)
        got = b""
        while len(got) < len(wanted):
            data = connection.recv(4096)
            if not data:
                sys.exit("the server has ended the connection")
            got += data
        if got != wanted:
            sys.exit("other data")
        turns += 1
    print(turns, "turns")


if sys.argv[1] == "server":
    serve(int(sys.argv[2]), sys.argv[3])
else:
    ask(sys.argv[2], int(sys.argv[3]), sys.argv[4])
