"""Remote procedure calls by TI-RPC (libtirpc), one after the other on one connection. The SOVIA paper says that their programs
need no change, and gives no figure."""

import os
import shlex
import subprocess

from application import Application, Figure, Line, address
from lab import HERE, Failure

SOURCE = os.path.join(os.path.dirname(HERE), 'applications', 'rpc_calls.c')
SIZES = (4, 8192)


def compiled(work):
    """The program, which is made once in the bench's folder."""
    program = os.path.join(work, 'rpc_calls')
    if not os.path.exists(program):
        flags = _said('pkg-config', '--cflags', '--libs', 'libtirpc')
        _said('cc', '-O2', '-o', program, SOURCE, *shlex.split(flags))
    return program


def _said(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f'{words[0]}: {result.stderr.strip()[-300:]}')
    return result.stdout


def microseconds(text):
    """Of a call, as the client prints them."""
    try:
        return float(text.split()[-1])
    except (IndexError, ValueError) as problem:
        raise Failure(f'the client says no time: {text.strip()[-200:]}') from problem


class Calls(Application):
    """Calls whose argument has so many bytes and whose answer has four."""

    name = 'rpc'
    needs = ('cc', 'pkg-config')
    figures = (Figure('rpc-calls', 'Remote procedure calls: time of a call by the size of its argument', 'us', 'TCP', 'B', SIZES,
                      (Line('TCP'), Line('SOVIA'))),)

    def sample(self, turn):
        program = compiled(turn.work)
        log = os.path.join(turn.work, 'rpc.log')
        server = turn.lab.start('b', log, *turn.way.launcher(), program, 'serve', str(turn.port))
        try:
            turn.lab.await_port('b', turn.port)
            return {'rpc-calls': {turn.way.title: {size: self._call(turn, program, size) for size in SIZES}}}
        finally:
            turn.lab.stop(server)

    @staticmethod
    def _call(turn, program, size):
        calls = 1000 if turn.quick else 5000
        return microseconds(turn.lab.run('a', *turn.way.launcher(), program, address('b'), str(turn.port), str(size), str(calls)))


APPLICATIONS = (Calls(),)
