#!/usr/bin/python3
"""Echo servers as people write them in Python, and clients that verify what comes back.

    echo_programs.py server forking|threading|asyncio|uvloop|selectors PORT
    echo_programs.py client threads|asyncio|uvloop|select HOST PORT
"""

import asyncio
import os
import random
import selectors
import signal
import socket
import socketserver
import sys
import threading

import thread_failures  # noqa: F401  pylint: disable=unused-import


class Echo(socketserver.StreamRequestHandler):
    """Through files made from the socket, as StreamRequestHandler does it."""

    def handle(self):
        while True:
            piece = self.rfile.read1(65536)
            if not piece:
                return
            self.wfile.write(piece)


class ForkingServer(socketserver.ForkingMixIn, socketserver.TCPServer):
    """A process for each connection."""
    allow_reuse_address = True
    request_queue_size = 64


class ThreadingServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread for each connection."""
    allow_reuse_address = True
    request_queue_size = 64
    daemon_threads = True


def serve_asyncio(port):
    """asyncio's streams."""
    async def echo(reader, writer):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(echo, '0.0.0.0', port)
        async with server:
            await server.serve_forever()

    asyncio.run(main())


def use_libuv():
    """asyncio on libuv's loop instead of its own."""
    import uvloop  # pylint: disable=import-outside-toplevel
    uvloop.install()


def serve_selectors(port):
    """Non-blocking sockets and whatever readiness call the system's best is."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(('0.0.0.0', port), backlog=64)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    held = {}

    def drop(connection):
        selector.unregister(connection)
        connection.close()
        del held[connection]

    def ready(connection, events):
        if events & selectors.EVENT_READ:
            try:
                piece = connection.recv(65536)
            except BlockingIOError:
                piece = None
            if piece == b'' and not held[connection]:
                return drop(connection)
            held[connection] += piece or b''
        if held[connection]:
            try:
                sent = connection.send(held[connection])
                del held[connection][:sent]
            except BlockingIOError:
                pass
        # While there is something to send, nothing more is read.
        wanted = selectors.EVENT_WRITE if held[connection] else selectors.EVENT_READ
        selector.modify(connection, wanted)

    while True:
        for key, events in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                held[connection] = bytearray()
                selector.register(connection, selectors.EVENT_READ)
            else:
                ready(key.fileobj, events)


def compared(got, sent):
    """What is wrong with what came back, or nothing."""
    if got == sent:
        return ''
    first = next((i for i, (one, other) in enumerate(zip(got, sent)) if one != other), min(len(got), len(sent)))
    moved = sent.find(bytes(got[first:first + 64])) if len(got) >= first + 64 else -1
    return (f'{len(got)} of {len(sent)} bytes came back, the same up to {first}; what is there was sent at {moved}')


def pieces(number):
    """What client `number` sends: a few hundred kilobytes in pieces of all sizes."""
    numbers = random.Random(number)
    return [numbers.randbytes(numbers.choice((1, 10, 700, 4096, 33000, 150000))) for _ in range(20)]


def talk(host, port, number):
    """A blocking client: question and answer, then everything at once, then half-closed."""
    sent = pieces(number)
    with socket.create_connection((host, port), timeout=20) as connection:
        for piece in sent[:10]:
            connection.sendall(piece)
            got = b''
            while len(got) < len(piece):
                more = connection.recv(len(piece) - len(got))
                assert more, 'it ended too early'
                got += more
            assert got == piece, 'it came back changed'
        rest = b''.join(sent[10:])
        sender = threading.Thread(target=lambda: (connection.sendall(rest),
                                                  connection.shutdown(socket.SHUT_WR)))
        sender.start()
        with connection.makefile('rb') as file:
            wrong = compared(file.read(), rest)
            assert not wrong, f'the rest: {wrong}'
        sender.join()


def client_threads(host, port):
    """Sixteen blocking clients at once."""
    wrong = []

    def one(number):
        try:
            talk(host, port, number)
        except (OSError, AssertionError) as error:
            wrong.append(f'client {number}: {error!r}')

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def client_asyncio(host, port):
    """Sixteen connections in one thread."""
    async def one(number):
        reader, writer = await asyncio.open_connection(host, port)
        sent = b''.join(pieces(number))

        async def send():
            for piece in pieces(number):
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

        got, _ = await asyncio.gather(reader.read(-1), send())
        writer.close()
        wrong = compared(got, sent)
        return f'client {number}: {wrong}' if wrong else None

    async def main():
        return await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(16))), 30)

    return [wrong for wrong in asyncio.run(main()) if wrong]


def client_select(host, port):
    """select() on eight connections, a message on each in flight."""
    wrong = []
    connections = {}
    for number in range(8):
        connection = socket.create_connection((host, port), timeout=20)
        connection.setblocking(False)
        connections[connection] = (number, bytearray(), b''.join(pieces(number)))
    left = {connection: memoryview(state[2]) for connection, state in connections.items()}
    selector = selectors.SelectSelector()
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    while connections:
        happened = selector.select(20)
        assert happened, 'nothing happens any more'
        for key, events in happened:
            connection = key.fileobj
            number, got, sent = connections[connection]
            if events & selectors.EVENT_WRITE:
                left[connection] = left[connection][connection.send(left[connection]):]
                if not left[connection]:
                    connection.shutdown(socket.SHUT_WR)
                    selector.modify(connection, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                piece = connection.recv(65536)
                got += piece
                if not piece:
                    if got != sent:
                        wrong.append(f'client {number}: {compared(got, sent)}')
                    selector.unregister(connection)
                    connection.close()
                    del connections[connection]
    return wrong


def main(role, kind, *where):
    """Returns the exit status."""
    if role == 'server':
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        port = int(where[0])
        if kind == 'uvloop':
            use_libuv()
        if kind in ('asyncio', 'uvloop'):
            serve_asyncio(port)
        elif kind == 'selectors':
            serve_selectors(port)
        else:
            server = ForkingServer if kind == 'forking' else ThreadingServer
            server(('0.0.0.0', port), Echo).serve_forever()
    clients = {'threads': client_threads, 'asyncio': client_asyncio, 'uvloop': client_asyncio, 'select': client_select}
    if kind == 'uvloop':
        use_libuv()
    wrong = clients[kind](where[0], int(where[1]))
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
