"""What a message costs: processor time, system calls and frames of both hosts a request; see --help."""

import argparse
import ctypes
import os
import platform
import shutil
import sys
import tempfile

import idle
import outputs
import results
from figures import digest, ratio
from lab import PLACES, Failure, Lab
from loads import Memcached, Redis, Sockperf, SockperfMany, Vipl, Wrk
from markdown import figure, head, line
from servers import Pgbench, Proxied
from ways import Way

FILE = os.path.join(os.path.dirname(results.FILE), 'cost.json')
PLACE = 'two-hosts'
FIRST_PORT = 7800
TRACING = '/sys/kernel/tracing'
# The environment of programs on lanes: they are forced, or as by default.
COST_WAYS = ((Way('tcp', 'kernel TCP', None), {}),
             (Way('lanes', 'lanes', 'granted'), {'SOVIA_ROUTE': 'lane'}),
             (Way('default', 'SOVIA by default', 'granted'), {}))
COLUMNS = (('value', 'rate'), ('processor_us', 'processor, us'), ('system_calls', 'system calls'), ('frames', 'frames'))


class Lone(Vipl):
    """Single messages of VIPL with their answers, polled for; over TCP the same by tcpping."""

    def __init__(self, size, count):
        super().__init__(size, count)
        self.words = ['--size', str(size), '--count', str(count), '--wait', 'poll', '--json']

    figures = staticmethod(outputs.ping)


class Costed:
    """A row: a load whose requests can be counted."""

    def __init__(self, key, title, unit, load, requests):
        self.key = key
        self.title = title
        self.unit = unit
        self.load = load
        self.requests = requests  # of a sample, from its value


def _of_seconds(seconds):
    """For a load that runs so long and says thousands a second."""
    return lambda value: value * 1e3 * seconds


def _of_exchanges(seconds):
    """For a load that runs so long and says us one way; a request is an exchange."""
    return lambda value: seconds * 1e6 / (2 * value)


ROWS = (
    Costed('redis-50', 'redis, 50 clients, GET', 'k/s', Redis(50, 150_000), lambda _: 150_000),
    Costed('redis-pipeline', 'redis, 50 clients, GET, pipelines of 16', 'k/s', Redis(50, 1_500_000, pipeline=16),
           lambda _: 1_500_000),
    Costed('nginx-16', 'nginx, 1 KB, 16 connections', 'k/s', Wrk(1024, 16), _of_seconds(2)),
    Costed('nginx-256', 'nginx, 1 KB, 256 connections', 'k/s', Wrk(1024, 256), _of_seconds(2)),
    Costed('memcached', 'memcached, memaslap with 16 threads', 'k/s', Memcached(16), _of_seconds(2)),
    Costed('haproxy', 'nginx, 1 KB, 16 connections, through haproxy', 'k/s', Proxied(1024, 16), _of_seconds(2)),
    Costed('pgbench-8', 'PostgreSQL, pgbench with 8 clients, SELECT 1', 'k/s', Pgbench(8), _of_seconds(2)),
    Costed('sockperf-50', 'sockperf, 14 B, 50 connections in turn', 'us', SockperfMany(14, 50), _of_exchanges(2)),
    Costed('sockperf-1', 'sockperf, 14 B', 'us', Sockperf(14), _of_exchanges(2)),
    Costed('vipl-1', 'VIPL, 4 B, polling (TCP: tcpping)', 'us', Lone(4, 200_000), lambda _: 200_000),
)


class PerfEventAttr(ctypes.Structure):
    """The first fields of the kernel's perf_event_attr (PERF_ATTR_SIZE_VER0)."""

    _fields_ = [('type', ctypes.c_uint32), ('size', ctypes.c_uint32), ('config', ctypes.c_uint64),
                ('rest', ctypes.c_uint64 * 6)]


class SystemCalls:
    """Counts the system calls of all processes of the machine during a `with`; None where the kernel can't."""

    TRACEPOINT, OF_X86_64 = 2, 298

    def __init__(self):
        self.count = None
        self._files = []

    def __enter__(self):
        if platform.machine() != 'x86_64':
            return self
        try:
            with open(f'{TRACING}/events/raw_syscalls/sys_enter/id', encoding='ascii') as file:
                event = int(file.read())
        except OSError:
            return self
        attr = PerfEventAttr(self.TRACEPOINT, ctypes.sizeof(PerfEventAttr), event)
        call = ctypes.CDLL(None).syscall
        self._files = [call(self.OF_X86_64, ctypes.byref(attr), -1, cpu, -1, 0) for cpu in range(os.cpu_count())]
        return self

    def __exit__(self, *_):
        good = [file for file in self._files if file >= 0]
        if good and len(good) == len(self._files):
            self.count = sum(int.from_bytes(os.read(file, 8), sys.byteorder) for file in good)
        for file in good:
            os.close(file)


def frames(lab):
    """Frames that both hosts have sent so far, as their kernels count them: a segment that is cut later is one."""
    total = 0
    for host in 'ab':
        for each in lab.run(host, 'cat', '/proc/net/dev').splitlines():
            name, _, counts = each.partition(':')
            if name.strip().startswith('via'):
                total += int(counts.split()[9])
    return total


def sample(lab, row, way, port, work):
    """Figures of one run, or why there are none."""
    try:
        before = frames(lab)
        with SystemCalls() as calls:
            got = row.load.sample(lab, way, port, work)
        sent = frames(lab) - before
    except (Failure, OSError) as failure:
        return {'failed': ' '.join(str(failure).split())}
    requests = row.requests(got['value'])
    return {'value': got['value'], 'processor_us': 1e6 * got['processor_s'] / requests,
            'system_calls': None if calls.count is None else calls.count / requests, 'frames': sent / requests}


def measure(row, runs, work):
    """All samples of a row by way, in turns."""
    samples = {way.key: [] for way, _ in COST_WAYS}
    port = FIRST_PORT
    with Lab(PLACES[PLACE]) as lab:
        for run in range(runs):
            for at in range(len(COST_WAYS)):
                way, switches = COST_WAYS[(run + at) % len(COST_WAYS)]
                port += 2
                lab.environment = way.environment(switches)
                samples[way.key].append(sample(lab, row, way, port, work))
    return samples


def row_result(row, samples, before, after):
    """Medians, and their ratios to kernel TCP's."""
    result = {'row': row.key, 'title': row.title, 'unit': row.unit, 'date': results.now(), **results.source(),
              'idle_percent': [round(before, 1), round(after, 1)], 'ways': {}}
    for way, _ in COST_WAYS:
        good = [each for each in samples[way.key] if 'failed' not in each]
        entry = {name: digest([each[name] for each in good if each[name] is not None])['median'] for name, _ in COLUMNS}
        entry['samples'] = [each['value'] for each in good]
        failed = [each['failed'] for each in samples[way.key] if 'failed' in each]
        if failed:
            entry['failed'] = failed
        for name in ('value', 'processor_us'):
            entry[f'{name}_ratio'] = ratio(entry[name], result['ways'].get('tcp', entry)[name])
        result['ways'][way.key] = entry
    return result


def _cell(entry, name):
    return '-' if entry.get(name) is None else figure(entry[name])


def tables(measured):
    """For documents: a line for each row and way."""
    rows = measured['rows']
    days = sorted({row['date'][:10] for row in rows})
    commits = sorted({str(row['commit']) + (' with changes' if row['dirty'] else '') for row in rows})
    text = f'Measured on {" and ".join(days)} at commit {", ".join(commits)}; medians of {measured["runs"]} runs in turns.\n\n'
    text += head('program', 'way', *(title for _, title in COLUMNS), 'rate (time) to TCP\'s', 'processor to TCP\'s')
    for row in rows:
        for way, _ in COST_WAYS:
            entry = row['ways'][way.key]
            cells = [_cell(entry, name) + (f' {row["unit"]}' if name == 'value' else '') for name, _ in COLUMNS]
            ratios = [f'{entry[name]:.2f}' if entry.get(name) else '-' for name in ('value_ratio', 'processor_us_ratio')]
            text += line([row['title'], way.title, *cells, *ratios])
    return {'cost/all': text}


def show(result):
    """One row, for people."""
    for way, _ in COST_WAYS:
        entry = result['ways'][way.key]
        if entry['value'] is None:
            print(f'  {way.title:16} failed: {entry["failed"][0]}', flush=True)
            continue
        print(f'  {way.title:16} {figure(entry["value"]):>8} {result["unit"]} ({entry["value_ratio"]:.2f})'
              f'  processor {figure(entry["processor_us"])} us ({entry["processor_us_ratio"]:.2f})'
              f'  system calls {_cell(entry, "system_calls")}  frames {_cell(entry, "frames")}', flush=True)


def main(words):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog='bench-cost', description='Measures what a request costs both hosts: processor time, system calls, frames.'
        ' By kernel TCP, on lanes and as SOVIA chooses, in turns.')
    parser.add_argument('--only', action='append', default=[], metavar='ROW',
                        choices=[row.key for row in ROWS], help='these rows: %(choices)s; may be given again')
    parser.add_argument('--runs', type=int, default=3, help='of each row and way (%(default)s)')
    parser.add_argument('--output', default=FILE, metavar='FILE', help='where the results go (doc/results/cost.json)')
    options = parser.parse_args(words)
    if os.geteuid() != 0:
        sys.exit('bench-cost: must be run as root: it makes network namespaces')
    look = idle.look()
    if not look.is_quiet:
        print(f'bench-cost: the machine is not idle, and nothing is measured: {look}', file=sys.stderr)
        return 75
    work = tempfile.mkdtemp(prefix='bench-cost-')
    os.chmod(work, 0o755)
    try:
        for row in ROWS:
            if options.only and row.key not in options.only:
                continue
            missing = row.load.missing()
            print(f'{row.key}: {row.title}' + (f': {missing}' if missing else ''), flush=True)
            if missing:
                continue
            before, samples = look, measure(row, options.runs, work)
            look = idle.calm()
            result = row_result(row, samples, before.idle_percent, look.idle_percent)
            show(result)
            results.write(options.output, {
                'what': 'what a request costs: make bench-cost', **results.machine(), 'runs': options.runs,
                'rows': results.merged(results.read(options.output), [result], [each.key for each in ROWS])})
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0
