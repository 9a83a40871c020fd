"""Numbered datagrams by kernel UDP, of which none may be lost.

  datagrams.py send ADDRESS PORT COUNT      so many at once
  datagrams.py stream ADDRESS PORT END      some thousand a second until the file END is there; prints how many
  datagrams.py receive ADDRESS PORT SENT    says "waiting", and "flows" when some have come; the file SENT will say how
                                            many were sent; status 1 if one of them has not come
"""
import os
import socket
import struct
import sys
import time

FORM = struct.Struct("!Q")
PAUSE = 0.0003
ENOUGH = 50
LATE = 5  # seconds without one: it was lost
SO_RCVBUFFORCE = 33  # Python does not name it


def send(to, count):
    for number in range(count):
        to.send(FORM.pack(number))


def stream(to, end):
    number = 0
    while not os.path.exists(end):
        to.send(FORM.pack(number))
        number += 1
        time.sleep(PAUSE)
    print(number)


def content(file):
    try:
        with open(file, encoding="ascii") as f:
            return int(f.read() or -1)
    except FileNotFoundError:
        return -1


def receive(own, file):
    own.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)  # a busy host reads late
    own.settimeout(0.1)
    print("waiting", flush=True)
    came = set()
    sent = -1
    last = time.monotonic()
    while len(came) != sent:
        try:
            came.add(FORM.unpack(own.recv(FORM.size))[0])
            last = time.monotonic()
            if len(came) == ENOUGH:
                print("flows", flush=True)
        except TimeoutError:
            if sent >= 0 and time.monotonic() - last > LATE:
                break
            sent = content(file)
    missing = [number for number in range(sent) if number not in came]
    print(f"{len(missing)} of {sent} were lost: {missing[:20]}")
    return 1 if missing else 0


def main():
    how, address, port, argument = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        if how == "receive":
            own.bind((address, int(port)))
            return receive(own, argument)
        own.connect((address, int(port)))
        if how == "send":
            send(own, int(argument))
        else:
            stream(own, argument)
    return 0


if __name__ == "__main__":
    sys.exit(main())
