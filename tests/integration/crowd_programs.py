"""Many connections of one program at once.

  crowd_programs.py serve PORT CONNECTIONS
                                 takes in all that comes by so many connections
  crowd_programs.py call HOST PORT CONNECTIONS FOLDER
                                 sends by so many connections, from a thread each, on one processor; puts its number
                                 into FOLDER/call.pid, then how many milliseconds the second half took into FOLDER/ready,
                                 and waits for FOLDER/end. Before that half it makes FOLDER/half and waits for FOLDER/go
"""
import os
import selectors
import socket
import sys
import threading
import time

import signal_files
import thread_failures  # noqa: F401  pylint: disable=unused-import

MESSAGE = bytes(16 * 1024)
MESSAGES = 4000  # of a connection, in each half


def serve(port, connections):
    selector = selectors.DefaultSelector()
    with socket.create_server(("0.0.0.0", port)) as listener:
        for _ in range(connections):
            selector.register(listener.accept()[0], selectors.EVENT_READ)
    while connections:
        for key, _ in selector.select():
            if not key.fileobj.recv(len(MESSAGE)):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                connections -= 1


def send_all(all_connections):
    def send(connection):
        for _ in range(MESSAGES):
            connection.sendall(MESSAGE)

    threads = [threading.Thread(target=send, args=[each]) for each in all_connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def call(host, port, connections, folder):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    every = [socket.create_connection((host, port)) for _ in range(connections)]
    signal_files.make(folder, "call.pid", str(os.getpid()))
    send_all(every)
    signal_files.make(folder, "half")
    signal_files.wait_for(folder, "go")
    begin = time.monotonic()
    send_all(every)
    signal_files.make(folder, "ready", "%d" % (1000 * (time.monotonic() - begin)))
    signal_files.wait_for(folder, "end")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]), int(sys.argv[3]))
    else:
        call(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
