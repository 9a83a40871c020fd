"""What an application of the papers gives to the bench.

A module of an application has a class derived from Application and names it in `__main__`'s list. Its `figures` tell which
lines and points there are, its `sample` measures all of them once, for one way, with servers of its own."""

import os
import re
import shutil
from typing import NamedTuple, Optional

from lab import SWITCH, Failure, Place
from ways import Way

TCP = Way('tcp', 'TCP', None)
SOVIA = Way('granted', 'SOVIA', 'granted')
# A shell's words for a program: prints when it began and ended, by the clock that all hosts share.
TIMED = ('sh', '-c', 'begin=$(date +%s%N); "$@" || exit; echo "$begin $(date +%s%N)"', 'sh')


class Line(NamedTuple):
    """One line of a figure, and the paper's values at its left and its right end, as far as the paper tells them."""

    name: str
    paper: tuple = (None, None)


class Figure(NamedTuple):
    """One figure or table of a paper."""

    name: str
    title: str
    unit: str
    reference: Optional[str]  # the line that the table shows as 1; none: it shows values
    of: str                   # the unit of the points
    points: tuple
    lines: tuple


class Turn(NamedTuple):
    """One sample's surroundings."""

    lab: object
    way: Way
    work: str    # a folder
    port: int    # the first of ten
    quick: bool


class Application:
    """Programs on some hosts of a switch, which are called a, b, c ..."""

    name = ''
    hosts = 2
    ways = (TCP, SOVIA)
    switches = {}  # SOVIA's variables
    figures = ()
    needs = ()     # programs, or files by their whole paths

    def missing(self):
        """Why the application can't be run, or nothing."""
        for each in self.needs:
            if not (os.path.exists(each) if each.startswith('/') else
                    shutil.which(each, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')):
                return f'there is no {each}'
        return None

    def place(self):
        """Its hosts."""
        return Place(f'{self.hosts} hosts on a switch', 'b', address('b'), (str(self.hosts), '--switch', SWITCH))

    def sample(self, turn):
        """Measures once: {figure: {line: {point: value}}}. A figure that the way has no line of is left out."""
        raise NotImplementedError


def address(host):
    """Of a host of a lab."""
    return f'10.77.0.{ord(host) - ord("a") + 1}'


def times(text):
    """Nanoseconds of the begin and the end of a program, from what TIMED has printed."""
    found = re.search(r'^(\d{19}) (\d{19})$', text, re.MULTILINE)
    if not found:
        raise Failure(f'a program does not say when it began and ended: {text.strip()[-200:]}')
    return int(found.group(1)), int(found.group(2))


def by_way(names):
    """The lines of a figure in which each way has these: 'TCP, proxy' ..."""
    return tuple(Line(f'{way.title}, {name}') for way in (TCP, SOVIA) for name in names)


def turns(ways, number):
    """The ways in the order of one round: each round begins with another one."""
    first = number % len(ways)
    return ways[first:] + ways[:first]
