#!/usr/bin/python3
"""What a program sees of the descriptors that libsovia has.

    descriptor_programs.py serve PORT            answers each line, a thread for each connection
    descriptor_programs.py threads HOST PORT N   N threads with a connection each, all at once
    descriptor_programs.py numbers HOST PORT DIRECTORY   numbers that are the library's, and that were
    descriptor_programs.py replaced HOST PORT    numbers of the library's that the program wants for dup2

numbers: puts DIRECTORY/ready when it has a lane, and goes on when DIRECTORY/go is there.
"""

import errno
import os
import socket
import sys
import threading
import time

import thread_failures  # noqa: F401  pylint: disable=unused-import


def answer(connection):
    """To the end of the stream."""
    with connection:
        while line := connection.recv(100):
            connection.sendall(line)


def serve(port):
    """For ever."""
    with socket.create_server(('0.0.0.0', int(port)), backlog=1000) as listener:
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def exchange(connection, count, pause):
    """Questions and answers."""
    for number in range(count):
        question = b'%08d' % number
        connection.sendall(question)
        assert connection.recv(8, socket.MSG_WAITALL) == question, 'another answer'
        time.sleep(pause)


def threads(host, port, count):
    """Each has its connection until all are done."""
    done = threading.Barrier(count + 1)
    failed = []

    def work():
        try:
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.settimeout(None)
                exchange(connection, 20, 0.02)
                done.wait()
        except OSError as error:
            failed.append(error)
            done.wait()

    threading.stack_size(128 * 1024)
    for _ in range(count):
        threading.Thread(target=work).start()
    done.wait()
    assert not failed, f'{len(failed)} of {count}: {failed[0]}'


def own_numbers(least):
    """Descriptors that this program has not opened."""
    return sorted(int(name) for name in os.listdir('/proc/self/fd')
                  if int(name) >= least and os.path.exists('/proc/self/fd/' + name))


def numbers(host, port, directory):
    """None of the library's can be closed; one that has become the program's can."""
    connection = socket.create_connection((host, int(port)))
    exchange(connection, 150, 0.005)
    own = own_numbers(600)
    assert len(own) >= 5, own
    for number in own:
        link = os.readlink(f'/proc/self/fd/{number}')
        try:
            os.close(number)
            raise AssertionError(f'{number} ({link}) is the library\'s')
        except OSError:
            pass
    exchange(connection, 100, 0)
    with open(directory + '/ready', 'w', encoding='ascii'):
        pass
    while not os.path.exists(directory + '/go'):
        time.sleep(0.05)
    # The agent has gone, and what was there for it.
    exchange(connection, 100, 0.005)
    left = set(own_numbers(600))
    if os.environ['VIADUCT_PLACEMENT'] == 'granted':  # the session waits for another agent
        return
    files = {}
    while len(files) < 900:
        number = os.open('/dev/null', os.O_RDONLY)
        files[number] = number
    freed = [number for number in own if number not in left]
    assert freed, 'no number is free again'
    for number in freed:
        assert number in files, f'{number} was not given out'
    for number in files:
        os.close(number)
    exchange(connection, 100, 0)


def replaced(host, port):
    """Those of the NIC give way; the others, some event descriptors, are said to be busy."""
    connection = socket.create_connection((host, int(port)))
    null = os.open('/dev/null', os.O_RDONLY)
    first = None
    for turn in range(4):
        exchange(connection, 150, 0.005)
        own = own_numbers(600)
        first = first or len(own)
        assert 5 <= len(own) <= first + 1, 'there are more and more'
        connection.sendall(b'unread !')
        time.sleep(0.2)
        of_nic = [each for each in own if os.readlink(f'/proc/self/fd/{each}').startswith('socket:')]
        number = of_nic[turn % len(of_nic)]
        os.dup2(null, number)
        assert os.readlink(f'/proc/self/fd/{number}') == '/dev/null'
        assert connection.recv(8, socket.MSG_WAITALL) == b'unread !', 'another answer'
        exchange(connection, 300, 0.005)
        assert os.readlink(f'/proc/self/fd/{number}') == '/dev/null', 'the library has taken it'
        os.close(number)
    exchange(connection, 300, 0.005)
    busy = 0
    for number in reversed(own_numbers(600)):
        try:
            os.dup2(null, number)
        except OSError as error:
            assert error.errno == errno.EBUSY, error
            busy += 1
    assert 0 < busy <= 12, busy
    exchange(connection, 100, 0)


def main():
    """The command line."""
    what, *rest = sys.argv[1:]
    if what == 'serve':
        serve(rest[0])
    elif what == 'threads':
        threads(rest[0], rest[1], int(rest[2]))
    elif what == 'replaced':
        replaced(*rest)
    else:
        numbers(*rest)
    print('all right')


main()
