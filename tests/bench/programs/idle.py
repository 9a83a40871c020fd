"""Whether the processors have nothing to do, and which programs keep them busy."""

import os
import time
from typing import NamedTuple

LEAST = 90  # percent, for a measurement
HZ = os.sysconf('SC_CLK_TCK')
PATIENCE = 60    # seconds for the machine to calm down


class Look(NamedTuple):
    """One second of the machine."""

    idle_percent: float
    at_work: list  # (percent of one processor, what it is), the busiest first

    @property
    def is_quiet(self):
        """Whether a measurement may begin."""
        return self.idle_percent >= LEAST

    def __str__(self):
        text = f'{self.idle_percent:.0f} % idle'
        if self.is_quiet:
            return text
        names = ', '.join(f'{name} ({percent:.0f} %)' for percent, name in self.at_work)
        return f'{text}; at work: {names or "no process (the kernel, or the machine below)"}'


def times(stat):
    """From the text of /proc/stat: ticks of all processors together, and those that were idle."""
    fields = [int(field) for field in stat.split('\n', 1)[0].split()[1:]]
    return sum(fields[:8]), fields[3] + fields[4]


def process_times(stat):
    """From the text of /proc/PID/stat: the program's name and the ticks that it used."""
    name = stat[stat.index('(') + 1:stat.rindex(')')]
    fields = stat[stat.rindex(')') + 2:].split()
    return name, int(fields[11]) + int(fields[12])


def _read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def _proc():
    """The bench runs in a process name space; the folder that its outer script has opened shows all processes of the
    machine."""
    return os.environ.get('VIADUCT_MACHINE_PROC', '/proc')


def _processes():
    """Names and ticks of all processes."""
    found = {}
    for pid in filter(str.isdigit, os.listdir(_proc())):
        try:
            found[pid] = process_times(_read(f'{_proc()}/{pid}/stat'))
        except (OSError, ValueError):
            pass  # it has ended
    return found


def _command(pid, name):
    """The begin of its command line, or its name where it has none."""
    try:
        return ' '.join(_read(f'{_proc()}/{pid}/cmdline').replace('\0', ' ').split())[:60] or name
    except OSError:
        return name


def look(seconds=1.0):
    """Watches the machine for that long."""
    begin, processes, (total, idle) = time.monotonic(), _processes(), times(_read('/proc/stat'))
    time.sleep(seconds)
    total_after, idle_after = times(_read('/proc/stat'))
    after = _processes()
    ticks = HZ * (time.monotonic() - begin)
    # A process that began meanwhile counts with all that it has used.
    used = [(100 * (now - processes.get(pid, (name, 0))[1]) / ticks, pid, name) for pid, (name, now) in after.items()]
    busiest = sorted((each for each in used if each[0] >= 3), reverse=True)[:6]
    return Look(100 * (idle_after - idle) / max(1, total_after - total),
                [(percent, _command(pid, name)) for percent, pid, name in busiest])


class Meter:
    """Seconds of processor time that all on the machine used during a `with`, agents and kernel included."""

    def __enter__(self):
        self._begin = times(_read('/proc/stat'))
        self.seconds = None
        return self

    def __exit__(self, *_):
        total, idle = times(_read('/proc/stat'))
        self.seconds = (total - self._begin[0] - idle + self._begin[1]) / HZ


def calm():
    """Waits until the machine is idle, for PATIENCE seconds at most. Returns the last look."""
    end = time.monotonic() + PATIENCE
    last = look()
    while not last.is_quiet and time.monotonic() < end:
        last = look()
    return last
