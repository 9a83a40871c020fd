"""Programs that never wait: they ask a socket again and again for what is to come.

  polling_programs.py serve PORT             sends back what comes, in calls that wait
  polling_programs.py call HOST PORT FOLDER WAY
                                             puts its number into FOLDER/call.pid and exchanges bytes, asking by recv,
                                             poll, epoll or select: until FOLDER/open is there and 1000 times more. Then it
                                             makes FOLDER/ready and waits for FOLDER/end
"""
import os
import select
import socket
import sys
import time

EXCHANGES = 1000


def serve(port):
    with socket.create_server(("0.0.0.0", port)) as listener:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(64):
                connection.sendall(data)


def receive(connection):
    while True:
        try:
            return connection.recv(64)
        except BlockingIOError:
            pass


def look_by(way, connection):
    """A function that says whether there is something to receive."""
    if way == "recv":
        return lambda: True  # the receive finds out
    if way == "select":
        return lambda: select.select([connection], [], [], 0)[0]
    asked = select.poll() if way == "poll" else select.epoll()
    asked.register(connection, select.POLLIN)
    return lambda: asked.poll(0)


def call(host, port, folder, way):
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        def path(name):
            return os.path.join(folder, name)

        with open(path("call.pid"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        look = look_by(way, connection)
        number = left = 0
        while left == 0 or number < left:
            sent = b"%d" % number
            connection.sendall(sent)
            while not look():
                pass
            if receive(connection) != sent:
                return 1
            number += 1
            if left == 0 and number % 100 == 0 and os.path.exists(path("open")):
                left = number + EXCHANGES
        with open(path("ready"), "w", encoding="ascii"):
            pass
        while not os.path.exists(path("end")):
            time.sleep(0.05)
    return 0


def main():
    if sys.argv[1] == "serve":
        return serve(int(sys.argv[2]))
    return call(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
