"""Tables of `make bench`, from doc/results/viabench.json: the results that viabench writes, one run for each MTU."""

import json
import re

from markdown import head, line

LARGE = 32768  # of which the processor time is shown
# (kind of case, title, unit, the property that differs between rows, whether sizes are columns)
KINDS = (
    ('latency', 'Latency, one way', 'us', 'bytes', True),
    ('bandwidth', 'Bandwidth, one way', 'Gb/s', 'bytes', True),
    ('rate', 'Rate of 64-byte messages, at most 32 sends outstanding', 'messages/s', 'bytes', False),
    ('connect', 'Connections, made and ended, one after the other', 'connections/s', '', False),
    ('register', 'Registering and deregistering, against copying', 'us', 'bytes', False),
    ('idle', 'Latency of 4 bytes beside idle connected VIs, one way', 'us', 'idle VIs', False),
    ('senders', 'Streams of many senders to one receiver, together', 'Gb/s', 'senders', False),
    ('memory', 'Memory of a program with 16 VIs', 'bytes', 'VIs', False),
)
# Rows of README.md: the bars of viabench that say them.
SHORT = (('4 bytes, one way, polling', 'kernel TCP, spinning',
          'granted, polling, 4 B one way / TCP spinning', 'hosted, polling, 4 B one way / TCP spinning'),
         ('4 bytes, one way, polling', 'raw AF_XDP', 'granted, polling, 4 B one way / raw AF_XDP', None),
         ('4 bytes, one way, blocking waits', 'kernel TCP, blocking',
          'granted, blocking, 4 B one way / TCP blocking', None),
         ('32 KB messages, Reliable Delivery', 'raw AF_XDP', 'granted, 32 KB stream, MTU 1500 / raw AF_XDP',
          'hosted, 32 KB stream, MTU 1500 / raw AF_XDP'),
         ('64-byte messages, a second', "raw AF_XDP's frames",
          'granted, 64 B messages, 32 outstanding / raw AF_XDP frames', None),
         ('connections, a second', 'kernel TCP', 'granted, connections / TCP', 'hosted, connections / TCP'))
# The figures of viabench that are kept: those that the tables show, and the spread of the main one.
KEPT = re.compile(r'(near_cpu|near_agent|far_agent|far_cpu|cpu)_ns_byte|bytes_for_each_idle_vi|lost_share|p99_us')


def number(value):
    """Three digits that mean something."""
    if value == 0:
        return '0'
    return f'{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3}f}'


def kept(run):
    """A run as viabench wrote it, without the figures that no table shows and without the rounds of all but the main one."""
    cases = []
    for case in run['results']:
        entry = {key: value for key, value in case.items() if key not in ('figures', 'count')}
        entry['figures'] = {}
        for name, figures in case['figures'].items():
            if name == case['figure']:
                entry['figures'][name] = figures
            elif KEPT.fullmatch(name):
                entry['figures'][name] = {key: figures[key] for key in ('median', 'min', 'max')}
        cases.append(entry)
    return {**run, 'results': cases}


def text_of(measured):
    """The text of a file of results, a line for each case."""
    texts = []
    for run in measured['runs']:
        cases = ',\n  '.join(json.dumps(case) for case in run['results'])
        about = {key: value for key, value in run.items() if key != 'results'}
        texts.append(json.dumps(about, indent=2)[:-2] + f',\n "results": [\n  {cases}\n ]}}')
    about = {key: value for key, value in measured.items() if key != 'runs'}
    return json.dumps(about, indent=1)[:-2] + ',\n "runs": [\n' + ',\n'.join(texts) + '\n]}\n'


def runs(paths):
    """The runs of files that viabench has written."""
    found = []
    for path in paths:
        with open(path, encoding='utf-8') as file:
            found.append(kept(json.load(file)))
    return found


def how(case):
    """The name of a way to communicate."""
    text = {'raw': 'raw AF_XDP', 'tcp': 'TCP', 'copy': 'memcpy'}.get(case['transport'], 'VIA ' + case['transport'])
    if case['wait'] != '-':
        text += ', blocking' if case['wait'] == 'block' else ', spinning' if case['transport'] == 'tcp' else ', polling'
    if case['reliability'] != '-':
        text += ', ' + case['reliability']
    return text + (f', offload {case["offload"]}' if case['offload'] in ('on', 'off') else '')


def _main(case):
    return case['figures'].get(case['figure'])


class Run:
    """The cases of one MTU."""

    def __init__(self, run):
        self.mtu, self.rounds, self.hosts, self.bars = run['mtu'], run['rounds'], run['hosts'], run['bars']
        self.notes, self.cases = run['notes'], run['results']
        self.by_id = {case['id']: case for case in self.cases}

    def of(self, kind):
        """The cases of a kind."""
        return [case for case in self.cases if case['what'] == kind]

    def _best(self, begin):
        """Of several rates the highest one."""
        found = [case for case in self.cases if case['id'].startswith(begin) and _main(case)]
        return max(found, key=lambda case: _main(case)['median'], default=None)

    def tcp_beside(self, case):
        """TCP that waits in the same way, for messages of the same size, with segmentation offload."""
        kind, others = case['what'], case['others']
        if kind == 'register':
            return self.by_id.get(f'register/copy/{case["size"]}')
        if kind == 'idle':
            kind, others = 'latency', 0
        for offload in ('on', 'kept'):
            words = [kind, 'tcp', case['wait'], offload, str(case['size'])]
            if kind == 'senders' or others:
                words.append(str(others))
            found = self.by_id.get('/'.join(word for word in words if word != '-'))
            if found:
                return found
        return None

    def raw_beside(self, case):
        """The limit: frames of raw AF_XDP."""
        if case['what'] in ('bandwidth', 'senders'):
            return self._best('bandwidth/raw/')
        if case['what'] == 'rate':
            return self._best('rate/raw/')
        return self.by_id.get(f'latency/raw/{case["size"]}') if case['what'] in ('latency', 'idle') else None


def _ratio(case, beside):
    if beside is None or beside is case or not _main(beside):
        return ''
    return f'{_main(case)["median"] / _main(beside)["median"]:.2f}'


def _remarks(case):
    said = [f'failed: {len(case["failures"])}'] if case['failures'] else []
    lost, idle = case['figures'].get('lost_share'), case['figures'].get('bytes_for_each_idle_vi')
    if lost and lost['median'] >= 0.0005:
        said.append(f'{lost["median"] * 100:.1f} % lost')
    if idle:
        said.append(f'{number(idle["median"])} for each idle VI')
    return ' '.join(said)


def by_row(run, kind, unit, differs):
    """A row for each case."""
    text = head('how', differs, unit, 'quartiles', '/copy' if kind == 'register' else '/TCP', '/raw', 'remarks',
                align='right')
    for case in run.of(kind):
        value = '' if kind == 'connect' else str(case['others' if kind in ('idle', 'senders') else 'size'])
        main = _main(case)
        if not main:
            text += line([how(case), value, '-', '', '', '', _remarks(case)])
            continue
        text += line([how(case), value, number(main['median']), f'{number(main["q1"])}..{number(main["q3"])}',
                      _ratio(case, run.tcp_beside(case)), _ratio(case, run.raw_beside(case)), _remarks(case)])
    return text


def by_size(run, kind):
    """A row for each way, a column for each size."""
    cells, sizes = {}, set()
    for case in run.of(kind):
        main = _main(case)
        sizes.add(case['size'])
        cells.setdefault(how(case), {})[case['size']] = \
            f'{number(main["median"])} ({number(main["q1"])}..{number(main["q3"])})' if main else 'failed'
    text = head('how', *(f'{size} B' for size in sorted(sizes)), align='right')
    for way, row in cells.items():
        text += line([way] + [row.get(size, '') for size in sorted(sizes)])
    return text


def processor_table(run):
    """The processor time that each part spends on a byte."""
    text = head('how', 'bytes', 'sender', 'its agent', 'receiver\'s agent', 'receiver', 'sum', align='right')
    for case in run.of('bandwidth'):
        if 'cpu_ns_byte' in case['figures'] and (case['size'] >= LARGE or case['transport'] == 'raw'):
            parts = [case['figures'].get(part + '_ns_byte')
                     for part in ('near_cpu', 'near_agent', 'far_agent', 'far_cpu', 'cpu')]
            text += line([how(case), str(case['size'])] + [number(part['median']) if part else '' for part in parts])
    return text


def bars_table(run):
    """The figures that are to be reached."""
    text = head('bar', 'is to be', 'is', '', align='right')
    for bar in run.bars:
        limit = f'at least {number(bar["at_least"])}' if 'at_least' in bar else f'at most {number(bar["at_most"])}'
        if bar['is'] is not None:
            text += line([bar['bar'], limit, number(bar['is']), bar['result']])
    return text


def run_tables(run):
    """All that was measured with one MTU."""
    text = f'### MTU {run.mtu}\n\n{run.hosts}; medians of {run.rounds} rounds, interleaved.\n'
    text += ''.join(f'\n- {note}' for note in run.notes)
    for kind, title, unit, differs, many_sizes in KINDS:
        if not run.of(kind):
            continue
        text += f'\n#### {title}{", " + unit if many_sizes else ""}\n\n'
        text += by_size(run, kind) if many_sizes else by_row(run, kind, unit, differs)
        if kind == 'bandwidth':
            text += f'\n#### Processor time for a byte of a stream, ns\n\n{processor_table(run)}'
    return text + f'\n#### Bars\n\n{bars_table(run)}'


def all_tables(measured):
    """The tables of all runs."""
    return '\n'.join(run_tables(Run(run)) for run in measured['runs'])


def short_rows(measured):
    """For newcomers: ratios alone, of the first run."""
    bars = {bar['bar']: bar['is'] for bar in measured['runs'][0]['bars']}
    text = ''
    for title, beside, *names in SHORT:
        text += line(['VIA: ' + title, beside,
                      *('' if bars.get(name) is None else f'{bars[name]:.2f}' for name in names)])
    return text
