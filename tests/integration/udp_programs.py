"""UDP programs for sovia_udp.test.

  udp_programs.py server PORT            echoes; "quit" ends it, "stop" makes it give its lanes up
  udp_programs.py client HOST PORT       prints what it sees, a line for each thing
  udp_programs.py talk HOST PORT FROM FILE
                                         from port FROM, until there is the file: gets its own echoes alone
  udp_programs.py stay HOST PORT FILE    talks until there is FILE.open, says "leave", and when there is FILE.new
                                         talks until it is answered
  udp_programs.py flood HOST PORT FILE   talks until there is FILE.1, sends without a look at answers until there is
                                         FILE.2, and ends with an answer to what it says then

The client prints the same whatever way its datagrams go. The server of the next port is ended. Before the first case
it talks until there is a file $UDP_WARM.1, before the second $UDP_WARM.2, and so on, if UDP_WARM is set.
"""
import ctypes
import os
import select
import socket
import sys
import time


def server(port):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("", port))
    print("ready", flush=True)
    while True:
        data, peer = end.recvfrom(65535)
        if data == b"quit":
            return
        if data == b"leave":  # SOVIA does not hear of it
            ctypes.CDLL(None).syscall(3, end.fileno())  # close
            print("left", flush=True)
            time.sleep(60)
        if data == b"stop":
            end.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 60)
        if data.startswith(b"burst"):
            for n in range(int(data[5:])):
                end.sendto(b"%d" % n, peer)
        else:
            end.sendto(data, peer)


def warm_up(end, to, number):
    """Talks until the test says that there is a lane."""
    until = os.environ.get("UDP_WARM", "")
    n = 0
    answered = False
    end.settimeout(1)
    while n < 10 or not answered or (until and not os.path.exists(f"{until}.{number}")):
        n += 1
        end.sendto(b"warm %d" % n, to)
        answered = False
        try:
            while end.recv(100) != b"warm %d" % n:
                pass
            answered = True  # and so is all that was sent before
        except socket.timeout:
            pass
    end.settimeout(5)


def echo(end, to, data):
    end.sendto(data, to)
    return end.recvfrom(65535)


def waited(end):
    return bool(select.select([end], [], [], 5)[0])


def basics(end, to):
    end.settimeout(None)
    print(echo(end, to, b"hello") == (b"hello", to))
    print(echo(end, to, b"") == (b"", to))
    for size in (1, 64, 1472, 1473, 4096):
        print(size, echo(end, to, b"x" * size)[0] == b"x" * size)
    end.sendto(b"0123456789", to)
    print(waited(end), end.recv(4, socket.MSG_PEEK), end.recv(20, socket.MSG_PEEK), end.recv(4))
    end.sendto(b"0123456789", to)
    got = end.recvmsg(3, 100) if waited(end) else None
    print(got[:3], got[3] == to)
    end.sendto(b"0123456789", to)
    buffer = bytearray(3)
    print(waited(end), end.recv_into(buffer, 3, socket.MSG_TRUNC), bytes(buffer))
    try:
        end.recv(10, socket.MSG_DONTWAIT)
    except BlockingIOError as error:
        print(error)
    end.sendto(b"pieces", to)
    parts = [bytearray(2), bytearray(1), bytearray(10)]
    print(end.recvmsg_into(parts)[0], parts[0], parts[1], parts[2][:3])
    end.sendmsg([b"from ", b"", b"several"], [], 0, to)
    print(end.recv(100))


def waiting(end, to):
    poller = select.poll()
    poller.register(end, select.POLLIN | select.POLLOUT)
    print(poller.poll(0) == [(end.fileno(), select.POLLOUT)])
    end.sendto(b"poll", to)
    poller.modify(end, select.POLLIN)
    print(poller.poll(5000) == [(end.fileno(), select.POLLIN)], end.recv(100))
    print(poller.poll(10))
    end.sendto(b"select", to)
    print(waited(end), end.recv(100))
    print(select.select([end], [], [], 0.01)[0])
    end.settimeout(0.01)
    try:
        end.recv(10)
    except socket.timeout as error:
        print(error)
    end.setblocking(True)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 8 + (20000).to_bytes(8, "little"))
    try:
        end.recv(10)
    except OSError as error:
        print(error)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
    end.setblocking(False)
    try:
        end.recv(10)
    except OSError as error:
        print(error)


def ordered(end, to):
    """Each burst in order, and nothing twice: 20 times 50 fit in any buffer."""
    end.settimeout(5)
    good = 0
    for _ in range(20):
        end.sendto(b"burst50", to)
        good += [end.recv(100) for _ in range(50)] == [b"%d" % n for n in range(50)]
    print(good)


def leaving(end, to):
    """Both ends go back to the kernel, with nothing lost, doubled or out of order."""
    end.settimeout(None)
    end.sendto(b"burst100", to)
    end.sendto(b"stop", to)
    end.sendto(b"burst100", to)
    got = [end.recv(100) for _ in range(201)]
    numbers = [b"%d" % n for n in range(100)]
    print(got == numbers + [b"stop"] + numbers)
    print(echo(end, to, b"after")[0])
    if os.fork() == 0:
        print(echo(end, to, b"child")[0], flush=True)
        os._exit(0)
    os.wait()
    print(echo(end, to, b"parent")[0])
    other = socket.socket(fileno=os.dup(end.fileno()))
    print(echo(other, to, b"copy")[0])
    poller = select.epoll()
    poller.register(end, select.EPOLLIN)
    end.sendto(b"epoll", to)
    print(len(poller.poll(5)), end.recv(100))


def refused(end, to):
    """The server has gone: the kernel's error."""
    end.sendto(b"quit", to)
    end.settimeout(0.2)
    for _ in range(50):
        try:
            end.send(b"anybody?")
            end.recv(100)
        except ConnectionRefusedError as error:
            print(error)
            return
        except socket.timeout:
            pass
    print("no error")


def talk(host, port, source, file):
    to = (socket.gethostbyname(host), port)
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind(("", source))
    end.settimeout(0.5)
    n = answers = 0
    while answers < 100 or not os.path.exists(file):
        n += 1
        end.sendto(b"%d" % n, to)
        try:
            data, peer = end.recvfrom(100)
        except socket.timeout:
            continue
        answers += 1
        if peer != to or int(data) > n:
            sys.exit(f"got {data} of {peer}")


def flood(host, port, file):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to = (socket.gethostbyname(host), port)
    end.settimeout(1)
    while not os.path.exists(file + ".1"):
        try:
            echo(end, to, b"warm")
        except socket.timeout:
            pass
    while not os.path.exists(file + ".2"):
        end.sendto(b"flood", to)
    for _ in range(30):
        end.sendto(b"last", to)
        try:
            while end.recv(100) != b"last":
                pass
            return
        except socket.timeout:
            pass
    sys.exit("no answer")


def stay(host, port, file):
    to = (socket.gethostbyname(host), port)
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.settimeout(0.2)

    def answered(data):
        end.sendto(data, to)
        try:
            return end.recv(100) == data
        except (socket.timeout, ConnectionRefusedError):
            return False

    while not os.path.exists(file + ".open"):
        answered(b"old")
    end.sendto(b"leave", to)
    while not os.path.exists(file + ".new"):
        time.sleep(0.01)
    while not answered(b"new"):
        pass


def client(host, port):
    to = (socket.gethostbyname(host), port)
    last = (to[0], port + 1)
    cases = ((basics, to, False), (basics, to, True), (waiting, to, False), (ordered, to, False),
             (refused, last, True), (leaving, to, False))
    for number, (case, peer, connects) in enumerate(cases, 1):
        print(case.__name__)
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if connects:
            end.connect(peer)
        warm_up(end, peer, number)
        case(end, peer)


if sys.argv[1] == "server":
    server(int(sys.argv[2]))
elif sys.argv[1] == "talk":
    talk(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
elif sys.argv[1] == "flood":
    flood(sys.argv[2], int(sys.argv[3]), sys.argv[4])
elif sys.argv[1] == "stay":
    stay(sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    client(sys.argv[2], int(sys.argv[3]))
