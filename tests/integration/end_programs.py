"""Programs that look how the end of a stream is told.

    end_programs.py serve PORT         reads each connection to its end; of those that are `asked', answers then
    end_programs.py call HOST PORT DIR SIZE...
                                       streams, first until they are on a lane and then so many bytes, each ended by
                                       close() and by shutdown(); when all have been told, makes DIR/ready, and lives
                                       until DIR/end is there
"""
import os
import socket
import struct
import sys
import time

ROUNDS = 4
PIECE = bytes(16384)
PATIENCE = 3  # seconds for a lane
DATA_SEGMENTS_OUT = 156  # in struct tcp_info


def read_to_end(connection):
    """How many bytes there were."""
    got = 0
    while True:
        piece = connection.recv(65536)
        if not piece:
            return got
        got += len(piece)


def serve(port):
    """One connection at a time; the first byte says whether an answer is wanted."""
    with socket.create_server(('0.0.0.0', port)) as listener:
        listener.settimeout(None)
        while True:
            with listener.accept()[0] as connection:
                asked = connection.recv(1) == b'a'
                got = 1 + read_to_end(connection)
                if asked:
                    connection.sendall(struct.pack('=Q', got))
                    read_to_end(connection)


def kernel_sends(connection):
    """So many segments with data it has sent."""
    about = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return struct.unpack_from('=I', about, DATA_SEGMENTS_OUT)[0]


def begin(connection, how):
    """Sends in this direction alone until it is on a lane; how many bytes that took."""
    connection.sendall(how)
    sent = 1
    give_up = time.monotonic() + PATIENCE
    before = -1
    while before != kernel_sends(connection) and time.monotonic() < give_up:
        before = kernel_sends(connection)
        connection.sendall(PIECE)
        sent += len(PIECE)
        time.sleep(0.002)
    return sent


def stream(connection, how, size):
    """Sends a stream and ends it."""
    sent = begin(connection, how) + size
    while size > 0:
        size -= connection.send(PIECE[:size])
    if how == b'a':
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(8, socket.MSG_WAITALL)
        assert struct.unpack('=Q', answer)[0] == sent, 'bytes are missing'
        assert read_to_end(connection) == 0


def call(host, port, folder, sizes):
    """Each stream alone: a server that has not seen the end of the last takes no other."""
    for size in sizes:
        for how in (b'c', b'a'):
            for _ in range(ROUNDS):
                with socket.create_connection((host, port), 60) as connection:
                    stream(connection, how, size)
        print(f'{size} bytes', flush=True)
    # The last one that was closed has been read to its end if this one is answered.
    with socket.create_connection((host, port), 60) as connection:
        stream(connection, b'a', 1)
    with open(os.path.join(folder, 'call.pid'), 'w', encoding='ascii') as file:
        file.write(str(os.getpid()))
    with open(os.path.join(folder, 'ready'), 'w', encoding='ascii'):
        pass
    while not os.path.exists(os.path.join(folder, 'end')):
        time.sleep(0.02)


if __name__ == '__main__':
    if sys.argv[1] == 'serve':
        serve(int(sys.argv[2]))
    else:
        call(sys.argv[2], int(sys.argv[3]), sys.argv[4], [int(size) for size in sys.argv[5:]])
