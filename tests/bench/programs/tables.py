"""Tables of the documents, made from doc/results.

A document has a place for each of its tables, between two comments:

    <!-- table: programs/two-hosts -->
    <!-- end of the table -->

`update` fills them, `outdated` names the documents in which they are not what the results say. `typed` finds figures of
performance elsewhere in documents: they belong into doc/results."""

import glob
import os
import re

import benches
import results
from benches import figure, head, line
from ways import WAYS

PLACE = re.compile(r'(<!-- table: (\S+) -->\n)(.*?)(<!-- end of the table -->)', re.DOTALL)
TYPED = re.compile(r'\d\s?(?:us|Mb/s|Gb/s|k/s|times)\b')
# Documents with figures of their own, and lines that tell settings, not figures.
TYPED_EXEMPT_FILES = ('doc/tried.md',)
TYPED_EXEMPT_LINES = ('One of its own is sent after 50 us', 'by more than an eighth and 20 us', '| links | 1 us to 50 ms',
                      'everything is lost for 10 us to 50 ms', 'by 1 us to 1 s', 'switch whose ports carry 1 Gb/s',
                      # The papers' own numbers.
                      'SOVIA takes 1.3 us more than VIPL', 'KSOVIA: 18.2 us and 19.5 us', "SDP's rises by 138 us")
NOT_MEASURED = '*Not measured yet: `make bench-programs` does it.*\n'
# Documents have places for the tables of all applications; the results, which these are made from, may have some.
APPLICATIONS = 'applications/'
NO_APPLICATION = '*Not measured yet: `make bench-applications` does it.*\n'
# The rows in README.md: SOVIA's figures in TCP's alone.
SHORT = ('two-hosts/sockperf-14', 'two-hosts/redis-1', 'two-hosts/redis-50', 'two-hosts/nginx-16', 'two-hosts/nginx-256',
         'two-hosts/nginx-64k', 'two-hosts/curl', 'two-hosts/iperf3', 'two-hosts/exchanges', 'two-hosts/memcached',
         'two-hosts/ftp-put', 'two-hosts/ftp-get', 'two-hosts/stream-end', 'one-host/redis-1', 'one-host/redis-50')


def _figures(entry, unit):
    if entry.get('median') is None:
        return 'failed'
    text = f'{figure(entry["median"])} {unit} ({figure(entry["min"])} to {figure(entry["max"])})'
    return text + (f', {len(entry["failed"])} failed' if 'failed' in entry else '')


def ratio_cell(row, way):
    """SOVIA's figure in TCP's, bold where it is worse."""
    ratio = row['ways'][way].get('ratio')
    if ratio is None:
        return '-'
    worse = ratio < 0.995 if row['better'] == 'more' else ratio > 1.005
    text = f'{ratio:.2f}' if ratio < 10 else f'{ratio:.0f}'
    return f'**{text}**' if worse else text


def words_cell(row, way):
    """How many times faster or slower, bold where it is slower."""
    ratio = row['ways'][way].get('ratio')
    if not ratio:
        return '-'
    faster = ratio if row['better'] == 'more' else 1 / ratio
    if faster >= 1.05:
        return f'{faster:.1f} times faster' if faster < 10 else f'{faster:.0f} times faster'
    return f'**{1 / faster:.1f} times slower**' if faster <= 0.95 else 'as fast'


def _not_run(row, columns):
    reason = row['not_run'].replace('|', '/')
    return line([row['title'], f'not measured: {reason}'] + [''] * (columns - 2))


def place_table(rows):
    """All figures of a place."""
    text = head('program', *(cell for way in WAYS for cell in ([way.title, 'ratio'] if way.is_sovia else [way.title])))
    for row in rows:
        if 'not_run' in row:
            text += _not_run(row, 6)
            continue
        cells = [row['title']]
        for way in WAYS:
            cells.append(_figures(row['ways'][way.key], row['unit']))
            if way.is_sovia:
                cells.append(ratio_cell(row, way.key))
        text += line(cells)
    return text


def _processor(entry):
    return '-' if entry.get('processor_s') is None else f'{figure(entry["processor_s"])} s'


def switch_table(rows):
    """Figures and processor time: on a slow link the rate is the link's, and what differs is what it costs."""
    text = head('program', *(cell for way in WAYS for cell in (way.title, 'processor time')))
    for row in rows:
        if 'not_run' in row:
            text += _not_run(row, 7)
            continue
        cells = [row['title']]
        for way in WAYS:
            entry = row['ways'][way.key]
            said = _figures(entry, row['unit'])
            if entry.get('p99') is not None and row['row'].endswith('beside'):
                said += f', p99 {figure(entry["p99"])}'
            cells += [said, _processor(entry)]
        text += line(cells)
    return text


def short_table(rows):
    """For newcomers: what SOVIA makes of each program."""
    by_key = {row['row']: row for row in rows}
    text = head('program', 'granted', 'hosted')
    for key in SHORT:
        row = by_key.get(key)
        if row and 'not_run' not in row:
            title = row['title'] + (' (on 127.0.0.1)' if row['place'] == 'one-host' else '')
            text += line([title, words_cell(row, 'granted'), words_cell(row, 'hosted')])
    return text


def caption(measured, rows):
    """When, where and how."""
    commits = sorted({str(row['commit']) + (' with changes' if row['dirty'] else '') for row in rows})
    days = sorted({row['date'][:10] for row in rows})
    idle = [each for row in rows for each in row.get('idle_percent', [])]
    text = f'Measured on {" and ".join(days)} at commit {", ".join(commits)}, kernel {measured["kernel"]}, '
    text += f'{measured["processors"]} processors'
    if idle:
        text += f', which were idle to {min(idle):.0f} % at least before and behind each row'
    text += f'; medians of {measured["runs"]} runs in turns'
    return text


def program_tables(measured):
    """The tables of doc/results/programs.json by their names. A table of a place has least and most in brackets."""
    made = {}
    for place, make in (('two-hosts', place_table), ('one-host', place_table), ('switch', switch_table)):
        rows = [row for row in (measured or {}).get('rows', []) if row['place'] == place]
        made[f'programs/{place}'] = f'{caption(measured, rows)}, least and most in brackets.\n\n{make(rows)}' \
            if rows else NOT_MEASURED
    rows = [row for row in (measured or {}).get('rows', []) if row['row'] in SHORT and 'not_run' not in row]
    made['programs/short'] = f'{caption(measured, rows)}.\n\n{short_table(rows)}' \
        if rows else NOT_MEASURED
    return made


def filled(text, tables):
    """A document with its tables. A place for a table that there is not is a KeyError."""
    def table(name):
        return tables.get(name, NO_APPLICATION) if name.startswith(APPLICATIONS) else tables[name]
    return PLACE.sub(lambda found: found.group(1) + table(found.group(2)) + found.group(4), text)


def _paths(root):
    """All documents."""
    return [os.path.join(root, 'README.md'), *sorted(glob.glob(os.path.join(root, 'doc', '**', '*.md'), recursive=True))]


def _tables(root):
    """All that doc/results has."""
    folder = os.path.join(root, 'doc', 'results')
    return {**program_tables(results.read(os.path.join(folder, 'programs.json'))), **benches.all_tables(folder)}


def unused(root):
    """Tables that no document shows."""
    shown = set()
    for path in _paths(root):
        with open(path, encoding='utf-8') as file:
            shown.update(found.group(2) for found in PLACE.finditer(file.read()))
    return sorted(set(_tables(root)) - shown)


def _documents(root):
    """Their paths, and what they should be."""
    tables = _tables(root)
    for path in _paths(root):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        yield path, text, filled(text, tables)


def outdated(root):
    """Documents whose tables are not what the results say."""
    return [os.path.relpath(path, root) for path, text, wanted in _documents(root) if text != wanted]


def typed_lines(text):
    """(number, line) of each line outside of the tables that has a figure of performance."""
    blank = PLACE.sub(lambda found: '\n' * found.group().count('\n'), text)
    return [(number, each) for number, each in enumerate(blank.split('\n'), 1)
            if TYPED.search(each) and not any(exempt in each for exempt in TYPED_EXEMPT_LINES)]


def typed(root):
    """(document, number, line) of all documents' typed figures."""
    for path in _paths(root):
        name = os.path.relpath(path, root)
        if name not in TYPED_EXEMPT_FILES:
            with open(path, encoding='utf-8') as file:
                for number, each in typed_lines(file.read()):
                    yield name, number, each


def update(root):
    """Writes the tables, and returns the documents that changed."""
    changed = []
    for path, text, wanted in _documents(root):
        if text != wanted:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(wanted)
            changed.append(os.path.relpath(path, root))
    return changed
