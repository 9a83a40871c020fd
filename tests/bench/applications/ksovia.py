"""KSOVIA's table 2: ftp get of two files in memory, with netkit-ftp and linux-ftpd, over LANEVI (TCP over lanevid's interfaces at
both ends), on SOVIA's lanes and over TCP, and a local copy by cp. There is no KSOVIA here."""

import os
from contextlib import contextmanager

from application import SOVIA, TCP, TIMED, Application, Figure, Line, times
from loads import Ftp
from ways import Way

LANEVI = Way('lanevi', 'LANEVI', None)
COPY = Way('copy', 'local copy', None)
SIZES = (13374187, 168919040)
# Of the range for benchmarks (RFC 2544), which no host of a network has.
NEAR, FAR = '198.18.77.1', '198.18.77.2'
MEET = 'for attempt in $(seq 100); do ping -c 1 -W 0.1 "$0" >/dev/null && exit; sleep 0.05; done; exit 1'


def _sizes(turn):
    return SIZES[:1] if turn.quick else SIZES


@contextmanager
def _lanevi(turn):
    """Interfaces of LANEVI at both hosts, which have met."""
    programs = []
    try:
        for host, own in (('a', NEAR), ('b', FAR)):
            programs.append(turn.lab.start(host, os.path.join(turn.work, f'lanevid-{host}'), 'lanevid', '--network', 'bench',
                                           '--address', f'{own}/30'))
        turn.lab.run('a', 'sh', '-c', MEET, FAR)
        yield
    finally:
        for program in programs:
            turn.lab.stop(program)


def _copied(turn, size):
    """Seconds that cp takes."""
    source, target = (os.path.join(turn.work, name) for name in ('copied', 'copy'))
    with open(source, 'wb') as file:
        file.write(os.urandom(1 << 20) * (size // (1 << 20) + 1))
        file.truncate(size)
    begin, end = times(turn.lab.run('a', *TIMED, 'cp', source, target))
    for path in (source, target):
        os.remove(path)
    return (end - begin) / 1e9


class Transfers(Application):
    """Two files, each in a session of its own; the smaller one alone where it must be quick."""

    name = 'ksovia-ftp'
    ways = (TCP, SOVIA, LANEVI, COPY)
    switches = {'SOVIA_ROUTE': 'lane'}
    figures = (Figure('ksovia-table-2', 'KSOVIA table 2: ftp get of two files', 's', 'SOVIA', 'B', SIZES, (
        Line('LANEVI', (0.137, 1.74)), Line('SOVIA', (0.134, 1.8)), Line('KSOVIA (not here)', (0.125, 1.56)), Line('TCP'),
        Line('local copy', (0.063, 1.255)))),)

    def missing(self):
        return Ftp('get', SIZES[0]).missing()

    def sample(self, turn):
        if turn.way == COPY:
            taken = {size: _copied(turn, size) for size in _sizes(turn)}
        elif turn.way == LANEVI:
            with _lanevi(turn):
                taken = self._got(turn, FAR)
        else:
            taken = self._got(turn, 'b')
        return {self.figures[0].name: {turn.way.title: taken}}

    @staticmethod
    def _got(turn, host):
        """Seconds of each file."""
        return {size: Ftp('get', size, host).sample(turn.lab, turn.way, turn.port + number, turn.work)['value']
                for number, size in enumerate(_sizes(turn))}


APPLICATIONS = (Transfers(),)
