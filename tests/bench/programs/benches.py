"""Results of the benches beside that of programs, and their tables: doc/results/sovia.json, loss.json, mpi.json and
viabench.json; papers.json, the figures of papers beside those of `viabench papers`; applications.json, those of
tests/bench/applications; once.json, tables of measurements that were made once, by hand; and fuzz.json, the ledger of
fuzz targets.

`tests/bench/result` writes the first four from what the benches have left."""

import os

import applications
import cost
import idle
import papers
import proof
import results
import viabench
from figures import digest, ratio
from markdown import figure, head, line

PLACEMENTS = ('granted', 'hosted')
# What make bench-sovia measures: its file's name, the row's title, the unit, which values are good.
SOVIA_CASES = (('4-poll', '4 B one way, polling', 'us', 'less'),
               ('4-block', '4 B one way, blocking', 'us', 'less'),
               ('32k', '32 KB messages', 'Mb/s', 'more'),
               ('64', '64 B messages', 'a second', 'more'),
               ('64-nagle', '64 B messages, combining (TCP: Nagle)', 'a second', 'more'),
               ('4-message', '4 B with boundaries of messages, one way, polling', 'us', 'less'),
               ('64k-message', '64 KB with boundaries of messages', 'Mb/s', 'more'),
               ('64k-write', "VIPL's RDMA writes of 64 KB", 'Mb/s', 'more'),
               ('connections', 'connections', 'a second', 'more'))
# What is compared: title, first case and way, second case and way and its name. The last: the row in README.md.
SOVIA_LINES = (('4 B one way, polling', '4-poll', 'sovia', '4-poll', 'via', 'VIPL', '4 bytes, one way, polling'),
               ('4 B one way, blocking', '4-block', 'sovia', '4-block', 'tcp', 'TCP, blocking', '4 bytes, one way, blocking'),
               ('4 B one way, polling', '4-poll', 'sovia', '4-poll', 'tcp', 'TCP, spinning', None),
               ('32 KB messages', '32k', 'sovia', '32k', 'via', 'VIPL', '32 KB messages'),
               ('32 KB messages', '32k', 'sovia', '32k', 'tcp', 'TCP', '32 KB messages'),
               ('64 B messages, combining', '64-nagle', 'sovia', '64', 'sovia', 'not combining', None),
               ('64 B messages, combining', '64-nagle', 'sovia', '64-nagle', 'tcp', 'TCP with Nagle', None),
               ('4 B with boundaries, one way, polling', '4-message', 'sovia', '4-poll', 'via', 'VIPL', None),
               ('64 KB with boundaries', '64k-message', 'sovia', '64k-write', 'via', "VIPL's RDMA writes", None),
               ('connections', 'connections', 'sovia', 'connections', 'tcp', 'TCP', 'connections, a second'))
LOSSES = (0, 1, 10)
LOSS_WAYS = (('granted', 'VIA, granted'), ('hosted', 'VIA, hosted'), ('tcp', 'kernel TCP'))
MPI_WAYS = (('vipl', 'VIPL (Reliable Reception)'), ('viaduct', 'viaduct'), ('rxm', '`tcp;ofi_rxm`'), ('tcp', 'btl/tcp'),
            ('sovia', 'btl/tcp on SOVIA'))
MPI_SHM = ('shm', 'btl/vader')
MPI_KINDS = (('one-way', 'one way', 'us', 2), ('bandwidth', '16 messages at once', 'Mb/s', 3))
# Where MPI is measured: what a row's name and a way's begin with, and the ways of a table for either kind.
MPI_PLACES = (('', {'one-way': MPI_WAYS, 'bandwidth': MPI_WAYS[1:]}),
              ('switch', {kind: MPI_WAYS[1:] for kind, *_ in MPI_KINDS}),
              ('host', {kind: (MPI_SHM, *MPI_WAYS[1:]) for kind, *_ in MPI_KINDS}))


# ------------------------------------------------------------------ results of what a bench has left

def _samples(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding='utf-8') as file:
        return [float(each.split()[0]) for each in file if each.strip()]


def _head(what, rounds):
    """Conditions. A bench leaves in VIADUCT_IDLE_BEFORE how idle the machine was before it (`result idle`)."""
    about = {'what': what, 'date': results.now(), **results.source(), **results.machine()}
    before = os.environ.get('VIADUCT_IDLE_BEFORE')
    if before:
        about['idle_percent'] = [float(before), round(idle.look().idle_percent, 1)]
    return {**about, 'rounds': rounds} if rounds else about


def viabench_results(paths):
    """Of the files that `viabench --json` has written, one for each MTU."""
    return {**_head('raw AF_XDP, kernel TCP and VIA: make bench', None), 'runs': viabench.runs(paths)}


def papers_results(paths, older=None):
    """Of the files that `viabench papers --json` has written, one for each network. Figures that were not measured are kept
    of `older` results, with their date."""
    rows, rounds = papers.rows(paths)
    return papers.with_older({**_head("the papers' figures: make bench-papers", rounds), 'rows': rows}, older)


def sovia_results(folder, rounds):
    """Of the samples in `folder`: a file for each placement, case and way, one value a line."""
    rows = []
    for placement in PLACEMENTS:
        for key, title, unit, better in SOVIA_CASES:
            ways = {}
            for way in ('sovia', 'via', 'tcp'):
                values = _samples(os.path.join(folder, f'{placement}.{key}.{way}'))
                if not values:
                    continue
                ways[way] = {**digest(values), 'samples': values}
                shares = _samples(os.path.join(folder, f'{placement}.{key}.{way}.counts'))
                if shares:
                    ways[way]['kernel_percent_most'] = max(shares)
                dropped = _samples(os.path.join(folder, f'{placement}.{key}.{way}.does-not'))
                if dropped:
                    ways[way]['not_counted'] = len(dropped)
            if ways:
                rows.append({'row': f'{placement}/{key}', 'title': title, 'placement': placement, 'unit': unit,
                             'better': better, 'ways': ways})
    return {**_head('SOVIA beside VIPL and kernel TCP: make bench-sovia', rounds), 'rows': rows}


def loss_results(folder, rounds):
    """Of the samples in `folder`: a file WAY-LOSS for each, one value a line."""
    rows = []
    for way, title in LOSS_WAYS:
        for lost in LOSSES:
            values = _samples(os.path.join(folder, f'{way}-{lost}'))
            if values:
                rows.append({'row': f'{way}/{lost}', 'title': title, 'lost_percent': lost, 'unit': 'Mb/s',
                             **digest(values), 'samples': values})
    return {**_head('streams of 32 KB messages on links that lose frames: make bench-loss', rounds), 'rows': rows}


def _of_place(place, kind):
    return f'{place}-{kind}' if place else kind


def mpi_results(path, rounds):
    """Of lines [PLACE/]WAY SIZE US MBIT_S; VIPL's last is 0."""
    found = {}
    with open(path, encoding='utf-8') as file:
        for each in file:
            words = each.split()
            if len(words) < 4:
                continue
            place, _, way = words[0].rpartition('/')
            for kind, _, _, field in MPI_KINDS:
                if not (way == 'vipl' and kind == 'bandwidth'):
                    row = found.setdefault((_of_place(place, kind), int(words[1])), {})
                    row.setdefault(way, []).append(float(words[field]))
    rows = []
    for place, kinds in MPI_PLACES:
        for kind, title, unit, _ in MPI_KINDS:
            for (of, size), ways in sorted(found.items()):
                if kind in kinds and of == _of_place(place, kind):
                    rows.append({'row': f'{of}/{size}', 'title': title, 'bytes': size, 'unit': unit, 'ways': {
                        way: {**digest(values), 'samples': values} for way, values in ways.items()}})
    return {**_head('MPI over the ways there are: make bench-mpi', rounds), 'rows': rows}


# ------------------------------------------------------------------ tables

def _of(value, unit=''):
    """Median, and least and most where they are known."""
    if not value or value.get('median') is None:
        return '-'
    median = value['median']
    text = (f'{median:,.0f}' if median >= 10 and median == int(median) else figure(median)) + (f' {unit}' if unit else '')
    return text + (f' ({figure(value["min"])} to {figure(value["max"])})' if 'min' in value else '')


def _two(value):
    return '-' if value is None else f'{value:.2f}'


def caption(measured, counted='medians of {} rounds in turns'):
    """When, where and how, as far as it is known."""
    text = f'Measured on {measured["date"][:10]}'
    if measured.get('commit'):
        text += f' at commit {measured["commit"]}' + (' with changes' if measured.get('dirty') else '')
    elif 'committed_in' in measured:
        text += f', figures of commit {measured["committed_in"]}'
    if 'kernel' in measured:
        text += f', kernel {measured["kernel"]}'
    if 'processors' in measured:
        text += f', {measured["processors"]} processors'
    if measured.get('idle_percent'):
        text += f', which were idle to {min(measured["idle_percent"]):.0f} % at least before and behind'
    if measured.get('rounds'):
        text += '; ' + counted.format(measured['rounds'])
    return text


def _sovia_way(measured, placement, case, way):
    for row in measured['rows']:
        if row['row'] == f'{placement}/{case}':
            return row['ways'].get(way), row['unit']
    return None, ''


def _sovia_ratio(measured, placement, each):
    """Of the medians; as it was printed where these are known in fewer digits only."""
    printed = measured.get('printed_ratios', {}).get(f'{placement}/{each[1]}.{each[2]}/{each[3]}.{each[4]}')
    if printed is not None:
        return _two(printed)
    first, _ = _sovia_way(measured, placement, each[1], each[2])
    second, _ = _sovia_way(measured, placement, each[3], each[4])
    return _two(ratio((first or {}).get('median'), (second or {}).get('median')))


def sovia_tables(measured):
    """All lines by placement, and README.md's."""
    made = {}
    for placement in PLACEMENTS:
        text = head(placement, 'SOVIA', 'compared with', 'that', 'ratio')
        for each in SOVIA_LINES:
            first, unit = _sovia_way(measured, placement, each[1], each[2])
            second, _ = _sovia_way(measured, placement, each[3], each[4])
            text += line([each[0], _of(first, unit), each[5], _of(second, unit), _sovia_ratio(measured, placement, each)])
        made[f'sovia/{placement}'] = f'{caption(measured)}, least and most in brackets.\n\n{text}'
    text = ''
    for each in SOVIA_LINES:
        if each[6]:
            against = 'VIPL' if each[4] == 'via' else 'kernel TCP, blocking' if each[3] == '4-block' else 'kernel TCP'
            text += line(['SOVIA: ' + each[6], against, *(_sovia_ratio(measured, placement, each) for placement in PLACEMENTS)])
    made['sovia/short'] = text  # without a head: one table with viabench's
    return made


def loss_tables(measured):
    """Bandwidth without loss, and the shares of it that are left."""
    rows = {row['row']: row for row in measured['rows']}
    text = head('', 'without loss', *(f'{lost} % lost, of that' for lost in LOSSES[1:]))
    for way, title in LOSS_WAYS:
        whole = rows.get(f'{way}/0')
        cells = [title, _of(whole, 'Mb/s')]
        for lost in LOSSES[1:]:
            cells.append(_two(ratio(rows.get(f'{way}/{lost}', {}).get('median'), (whole or {}).get('median'))))
        text += line(cells)
    return {'loss/all': f'{caption(measured)}, least and most in brackets.\n\n{text}'}


def mpi_tables(measured):
    """For each place a table for latency, one for bandwidth."""
    made = {}
    for place, kinds in MPI_PLACES:
        for kind, title, unit, _ in MPI_KINDS:
            ways, name = kinds[kind], _of_place(place, kind)
            text = head(f'{title}, {unit}', *(title for _, title in ways))
            for row in measured['rows']:
                if row['row'].startswith(name + '/'):
                    size = row['bytes']
                    text += line([f'{size} B' if size < 1024 else f'{size >> 10} KB' if size < 1 << 20 else f'{size >> 20} MB',
                                  *(_of(row['ways'].get(way)) for way, _ in ways)])
            made[f'mpi/{name}'] = f'{caption(measured)}.\n\n{text}'
    return made


def _markdown(one):
    return line(one['columns']) + line(one['align'] if 'align' in one else ['---'] * len(one['columns'])) + \
        ''.join(line(row) for row in one['rows'])


def viabench_tables(measured):
    """All tables, and README.md's rows of the bars."""
    return {'viabench/all': f'{caption(measured)}.\n\n{viabench.all_tables(measured)}',
            'viabench/short': viabench.short_rows(measured)}


def papers_tables(measured):
    """The figures of the papers, and those here; of an older file the tables that it has."""
    if 'tables' in measured:
        return {f'papers/{key}': _markdown(one) for key, one in measured['tables'].items()}
    how = caption(measured, 'medians of at most {} rounds in turns, of fewer where a quick run was over')
    return {**papers.tables(measured), 'papers/how': f'{how}.\n'}


def once_tables(measured):
    """Tables as they were written down."""
    return {f'once/{key}': _markdown(one) for key, one in measured['tables'].items()}


def _lines_of(entry):
    """Percent of the lines aimed at, if they were counted."""
    lines = entry.get('lines', {}).values()
    count, reached = (sum(each[i] for each in lines) for i in (0, 1))
    return f'{100 * reached / count:.1f} % of {count:,}' if count else 'not counted'


def fuzz_tables(measured):
    """Fuzz targets: what each has run on the code as it is, by the ledger."""
    text = head('target', 'lines reached of the files aimed at', 'run on this code', 'of a processor', 'inputs',
                'findings', 'commit')
    for target, entry in measured['targets'].items():
        text += line([f'`fuzz_{target}`', _lines_of(entry), f'{entry["seconds"]:,} s', f'{entry["processor_seconds"]:,} s',
                      f'{entry["inputs"]:,}', str(len(entry['findings'])), entry['commit']])
    return {'fuzz/targets': text}


MAKERS = (('sovia.json', sovia_tables), ('loss.json', loss_tables), ('mpi.json', mpi_tables),
          ('viabench.json', viabench_tables), ('papers.json', papers_tables),
          ('applications.json', applications.tables), ('simulation.json', proof.simulation_tables),
          ('proof.json', proof.proof_tables), ('once.json', once_tables), ('fuzz.json', fuzz_tables),
          ('cost.json', cost.tables))


def all_tables(folder):
    """The tables of all files that are there."""
    made, days = {}, {}
    for name, make in MAKERS:
        measured = results.read(os.path.join(folder, name))
        if measured is not None:
            made.update(make(measured))
            days[name] = measured.get('date', '')[:10]
    made['benches/short'] = f'VIA: `make bench` of {days.get("viabench.json", "-")}; SOVIA: `make bench-sovia` of ' \
        f'{days.get("sovia.json", "-")}.\n\n' + head('what', 'compared with', *PLACEMENTS) + made.pop('viabench/short', '') + \
        made.pop('sovia/short', '')
    return made
