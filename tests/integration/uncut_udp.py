"""uncut_udp.py: datagrams that the kernel, or the other end's, cuts from one send().

usage: uncut_udp.py receive ADDRESS   says "waiting", then succeeds if all datagrams come as they were sent
       uncut_udp.py send ADDRESS
"""
import socket
import sys

PORT, COUNT, BYTES = 7300, 40, 1400
UDP_SEGMENT = 103
DATA = [bytes([i]) * BYTES for i in range(COUNT)]


def main():
    what, address = sys.argv[1:3]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    end = socket.socket(family, socket.SOCK_DGRAM)
    end.settimeout(5)
    if what == "send":
        end.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, BYTES)
        end.sendto(b"".join(DATA), (address, PORT))
        return 0
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    end.bind((address, PORT))
    print("waiting", flush=True)
    return 0 if [end.recv(65536) for _ in DATA] == DATA else 1


sys.exit(main())
