"""The papers' figures, measured on several networks: results of `viabench papers --json`, and their tables."""

import json

from markdown import figure, head, line

# Networks, in the order of the files that `result papers` takes, and how the tables call them.
NETWORKS = (('pair', 'veth pair'), ('switch', 'switch of 1 Gb/s'))


def rows(paths):
    """Of the files, one for each network: a row for each figure, with what was measured in each network."""
    found = {}
    rounds = 0
    for (network, _), path in zip(NETWORKS, paths):
        with open(path, encoding='utf-8') as file:
            measured = json.load(file)
        rounds = max(rounds, measured['rounds'])
        for each in measured['papers']:
            if not each['points']:
                continue
            row = found.setdefault(each['name'], {'row': each['name'], **{
                key: each[key] for key in ('title', 'unit', 'reference', 'of')}, 'points': each['points'], 'lines': [
                    {'name': one['name'], 'paper': [one['left'], one['right']]} for one in each['rows']]})
            for kept, one in zip(row['lines'], each['rows']):
                known = dict(zip(each['points'], one['values']))  # a run that was over early has not all
                kept[network] = [known.get(point) for point in row['points']]
    return list(found.values()), rounds


def _part(value, base):
    """A median in another one, and its quartiles; of one round there are none."""
    if not value or not base:
        return '-'
    of = base['median']
    text = figure(value['median'] / of)
    return text if value['q1'] == value['q3'] else f'{text} ({figure(value["q1"] / of)} to {figure(value["q3"] / of)})'


def _plain(value):
    return _part(value, {'median': 1})


def _ends(row):
    """Numbers of the points at the left and at the right end of the figure."""
    return [0, len(row['points']) - 1] if len(row['points']) > 1 else [0]


def _told(row, line, point):
    """The paper's value of a line at a point; papers tell those at the ends."""
    ends = _ends(row)
    return line['paper'][ends.index(point)] if point in ends else None


def table(row, points, silent=False):
    """At some points of the figure: each network, and the paper. `silent`: also where the paper tells nothing."""
    base = next((one for one in row['lines'] if one['name'] == row['reference']), None)
    networks = [each for each in NETWORKS if any(each[0] in one for one in row['lines'])]
    telling = [point for point in points if silent or any(_told(row, one, point) for one in row['lines'])]
    titles = [f'{row["reference"]} = 1' if base else row['unit']]
    for point in points:
        titles += [f'{row["points"][point]} {row["of"]}, {name}' for _, name in networks]
        titles += ['paper'] if point in telling else []
    text = head(*titles, align='right')
    for one in row['lines']:
        cells = [one['name']]
        for point in points:
            for network, _ in networks:
                value = (one.get(network) or [None] * len(row['points']))[point]
                cells.append(_part(value, (base.get(network) or [None] * len(row['points']))[point]) if base else _plain(value))
            if point in telling:
                told, of = _told(row, one, point), _told(row, base, point) if base else 1
                cells.append(f'{told / of:.2f}' if told and of else '')
        text += line(cells)
    return text


WHEN = ('date', 'commit', 'dirty', 'idle_percent')


def with_older(measured, older):
    """Results with those of `older` that were not measured again."""
    new = {row['row'] for row in measured['rows']}
    kept = [{**{key: older[key] for key in WHEN if key in older}, **row} for row in (older or {}).get('rows', [])
            if row['row'] not in new]
    order = [row['row'] for row in (older or {}).get('rows', [])]
    rows = sorted(measured['rows'] + kept, key=lambda row: order.index(row['row']) if row['row'] in order else len(order))
    return {**measured, 'rows': rows}


def _when(row):
    """Of a figure that was not measured with the last ones."""
    if 'commit' not in row:
        return ''
    return f'Measured on {row["date"][:10]} at commit {row["commit"]}{" with changes" if row.get("dirty") else ""}.\n\n'


def tables(measured):
    """A table for each figure."""
    return {f'papers/{row["row"]}': _when(row) + table(row, _ends(row), silent=True) for row in measured['rows']}
