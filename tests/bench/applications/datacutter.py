"""Data-intensive applications, as DataCutter's: examples/datacutter on four hosts. Balaji's figures 39 to 43.

Visualisation: a repository (host a), two filters (b, c) and a viewer (d), which asks for an image of 16 MB or for some
blocks of it. The paper has three copies of each stage on nodes of their own. For a guarantee, the block is the smallest one
with which new images come often enough, or the largest one that comes soon enough, as in the paper.

Load balancing: a source (a), two filters (b, c) of which one is slow, and a sink (d)."""

import os
import re

from application import Application, Figure, Line
from loads import await_text

IMAGE = 1 << 24
COST = 18            # ns for a byte, the paper's
BLOCKS = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
PARTS = (8, 64)      # into which an image is cut
SLOW = (2, 4, 8)
LARGE, SMALL = 16384, 2048    # the paper's blocks for TCP and for SocketVIA


def query_times(text):
    """Mean microseconds of the viewer's queries by their kind."""
    return {kind: float(us) for kind, us in re.findall(r'^(\w+): \d+ queries, ([\d.]+) us$', text, re.MULTILINE)}


def source_times(text):
    """Seconds of the whole, and microseconds until the second filter, the slow one, has done a block."""
    return (float(re.search(r' bytes: ([\d.]+) s,', text).group(1)),
            float(re.search(r'^filter 1: \d+ blocks, done after ([\d.]+) us', text, re.MULTILINE).group(1)))


def block_for_rate(curve, rate):
    """The smallest block with which so many new images come in a second; none if there is none."""
    return min((block for block, (_, images) in curve.items() if images >= rate), default=None)


def block_for_latency(curve, us):
    """The largest block that comes within this time."""
    return max((block for block, (latency, _) in curve.items() if latency <= us), default=None)


def start(turn, log, host, *words):
    """Starts a stage, which is ready when it waits."""
    path = os.path.join(turn.work, log)
    program = turn.lab.start(host, path, *turn.way.launcher(), 'pipeline', *words)
    await_text(path, 'waiting')
    return program


def guarantees(number, what):
    """The lines of figures 39 and 40: DR is the paper's word for blocks that were chosen for SocketVIA, not for TCP."""
    return lambda letter, title, unit, of, points: Figure(
        f'balaji-figure-{number}{letter}', f'Balaji figure {number}{letter}: {what}, {title}', unit, None, of, points,
        (Line('TCP'), Line("SOVIA, TCP's blocks"), Line('SOVIA, its own blocks (DR)')))


LATENCY = guarantees(39, 'latency of a partial update, with so many new images in a second')
RATE = guarantees(40, 'new images in a second, with a partial update within that time')


class Visualisation(Application):
    """Queries for an image and for parts of it."""

    hosts = 4

    def __init__(self, letter, title, cost, rates, limits):
        self.name = f'visualisation-{letter}'
        self.cost = cost
        self.rates = rates
        self.limits = limits
        self.curves = {}
        self.figures = (
            LATENCY(letter, title, 'us', 'images/s', rates),
            RATE(letter, title, 'images/s', 'us', limits),
            Figure(f'balaji-figure-41{letter}', f'Balaji figure 41{letter}: response time by the part of queries that are for'
                   f' the whole image, {title}', 'us', None, '% whole', (0, 20, 60, 100),
                   tuple(Line(f'{way.title}, {parts} blocks') for parts in PARTS for way in self.ways)))

    def view(self, turn, block, *options):
        """The times of one viewer's queries."""
        port = turn.port
        filters = ['--cost', str(self.cost), '--yields', '--port', str(port)]
        programs = [start(turn, 'c', 'c', 'filter', *filters, '--sink', f'd:{port + 1}'),
                    start(turn, 'b', 'b', 'filter', *filters, '--sink', f'c:{port}'),
                    start(turn, 'a', 'a', 'repository', '--port', str(port + 2), f'b:{port}')]
        try:
            return query_times(turn.lab.run(
                'd', *turn.way.launcher(), 'pipeline', 'viewer', '--port', str(port + 1), '--repository', f'a:{port + 2}',
                '--filters', '2', '--size', str(block), *options))
        finally:
            for program in programs:
                turn.lab.stop(program)

    def sample(self, turn):
        partial, whole = ('20', '1') if turn.quick else ('200', '3')
        blocks = BLOCKS[1::3] if turn.quick else BLOCKS
        curve = {block: (self.view(turn, block, '--queries', partial)['partial'],
                         1e6 / self.view(turn, block, '--queries', whole, '--whole', '100')['complete']) for block in blocks}
        self.curves[turn.way.title] = curve
        mixed = {}
        for parts in PARTS:
            line = mixed.setdefault(f'{turn.way.title}, {parts} blocks', {})
            for whole_part in (0, 20, 60, 100)[::3 if turn.quick else 1]:
                line[whole_part] = self.view(turn, IMAGE // parts, '--queries', '5', '--whole', str(whole_part), '--blocks',
                                             '4')['all']
        latency, rate, mix = (figure.name for figure in self.figures)
        return {latency: self.guaranteed(turn.way, self.rates, block_for_rate, 0),
                rate: self.guaranteed(turn.way, self.limits, block_for_latency, 1), mix: mixed}

    def guaranteed(self, way, points, choose, which):
        """For each point the value of the block that TCP would choose for it, and of that which SOVIA would."""
        own = self.curves[way.title]
        lines = {}
        for line, curve in ((("SOVIA, TCP's blocks", self.curves.get('TCP', {})), ('SOVIA, its own blocks (DR)', own))
                            if way.is_sovia else (('TCP', own),)):
            chosen = {point: choose(curve, point) for point in points}
            lines[line] = {point: own[block][which] for point, block in chosen.items() if block in own}
        return lines


class LoadBalancing(Application):
    """Filters of which one is slow."""

    name = 'load-balancing'
    hosts = 4
    figures = (
        Figure('balaji-figure-42', 'Balaji figure 42: round-robin, time until the slow filter has done a block', 'us', None,
               'times slower', SLOW, (Line('TCP, 16 KB'), Line('SOVIA, 16 KB'), Line('TCP, 2 KB'), Line('SOVIA, 2 KB'))),
        Figure('balaji-figure-43', 'Balaji figure 43: demand-driven, time of the whole, by the part of blocks that are slow',
               'ms', None, '% slow', (10, 50, 90), tuple(Line(f'{name} ({slow})') for slow in SLOW[::2] for name in
                                                         ('TCP, 16 KB', 'SOVIA, 16 KB', 'SOVIA, 2 KB'))))

    @staticmethod
    def balance(turn, scheduling, block, slow, slow_part=100):
        """Seconds of the whole, and microseconds of the slow filter's blocks."""
        port = turn.port
        filters = ['--port', str(port), '--cost', str(COST), '--yields', '--sink', f'd:{port + 1}']
        programs = [start(turn, 'd', 'd', 'sink', '--filters', '2', '--port', str(port + 1)),
                    start(turn, 'b', 'b', 'filter', *filters),
                    start(turn, 'c', 'c', 'filter', *filters, '--slow', str(slow), '--slow-part', str(slow_part))]
        try:
            return source_times(turn.lab.run(
                'a', *turn.way.launcher(), 'pipeline', 'source', '--scheduling', scheduling, '--size', str(block), '--blocks',
                str((2 if turn.quick else 8) * 1024 * 1024 // block), f'b:{port}', f'c:{port}'))
        finally:
            for program in programs:
                turn.lab.stop(program)

    def sample(self, turn):
        reactions, times = {}, {}
        for block in (LARGE, SMALL):
            name = f'{turn.way.title}, {block // 1024} KB'
            reactions[name] = {slow: self.balance(turn, 'rr', block, slow)[1] for slow in SLOW}
            if block == LARGE or turn.way.is_sovia:
                for slow in SLOW[::2]:
                    times[f'{name} ({slow})'] = {part: self.balance(turn, 'dd', block, slow, part)[0] * 1e3
                                                 for part in (10, 50, 90)}
        reaction, whole = (figure.name for figure in self.figures)
        return {reaction: reactions, whole: times}


APPLICATIONS = (Visualisation('a', 'no computation', 0, (1, 2, 3, 4, 5, 6), (100, 200, 400, 800, 1600, 3200)),
                Visualisation('b', 'linear computation', COST, (0.5, 1, 1.5, 2, 2.5, 3), (200, 400, 800, 1600, 3200, 6400)),
                LoadBalancing())
