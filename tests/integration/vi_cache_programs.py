"""Programs that talk over many connections, one after the other.

    vi_cache_programs.py serve PORT NAME       answers each line with NAME and the line
    vi_cache_programs.py call HOST PORT DIR    connections to that server, each until it is on a lane, until DIR/enough
                                            is there, which is looked at after each; when DIR/again is there one
                                            more, until DIR/end is there; tells of each
"""
import os
import socket
import struct
import sys
import time

DATA_SEGMENTS_OUT = 156  # in struct tcp_info


def serve(port, name):
    """One connection at a time."""
    with socket.create_server(('0.0.0.0', port)) as listener:
        while True:
            with listener.accept()[0] as connection, connection.makefile('rb') as lines:
                for line in lines:
                    connection.sendall(name.encode() + b' ' + line)


def kernel_sends(connection):
    """So many segments with data it has sent."""
    about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return struct.unpack_from('=I', about, DATA_SEGMENTS_OUT)[0]


def exchange(connection, lines, number):
    """Whose answer it is."""
    connection.sendall(b'%d\n' % number)
    name, answer = lines.readline().split()
    assert int(answer) == number, 'another answer has come'
    return name.decode()


def talk(host, port, is_over):
    """A connection."""
    with socket.create_connection((host, port), 20) as connection, connection.makefile('rb') as lines:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = on_lane = 0
        names = set()
        while not is_over(on_lane):
            before = kernel_sends(connection)
            names.add(exchange(connection, lines, number))
            on_lane = on_lane + 1 if kernel_sends(connection) == before else 0
            number += 1
            time.sleep(0.001)
        print(*sorted(names), number, 'exchanges,', on_lane, 'on the lane', flush=True)


def call(host, port, directory):
    """Until the test has seen enough."""
    with open(os.path.join(directory, 'client.pid'), 'w', encoding='ascii') as number:
        print(os.getpid(), file=number)
    enough = False
    while not enough:
        begin = time.monotonic()
        talk(host, port, lambda on_lane: on_lane >= 20 or time.monotonic() > begin + 20)
        enough = os.path.exists(os.path.join(directory, 'enough'))
    open(os.path.join(directory, 'ready'), 'w', encoding='ascii').close()
    while not os.path.exists(os.path.join(directory, 'again')):
        time.sleep(0.01)
    talk(host, port, lambda _: os.path.exists(os.path.join(directory, 'end')))
    print('done', flush=True)


def main(what, *rest):
    """The command line."""
    if what == 'serve':
        serve(int(rest[0]), rest[1])
    else:
        call(rest[0], int(rest[1]), rest[2])


main(*sys.argv[1:])
