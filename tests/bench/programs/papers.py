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


def _table(row):
    """At the left and at the right end of the figure: each network, and the paper."""
    base = next((one for one in row['lines'] if one['name'] == row['reference']), None)
    networks = [each for each in NETWORKS if any(each[0] in one for one in row['lines'])]
    ends = [0, len(row['points']) - 1] if len(row['points']) > 1 else [0]
    titles = [f'{row["reference"]} = 1' if base else row['unit']]
    for end in ends:
        titles += [f'{row["points"][end]} {row["of"]}, {name}' for _, name in networks] + ['paper']
    text = head(*titles, align='right')
    for one in row['lines']:
        cells = [one['name']]
        for number, end in enumerate(ends):
            for network, _ in networks:
                value = (one.get(network) or [None] * len(row['points']))[end]
                cells.append(_part(value, (base.get(network) or [None] * len(row['points']))[end]) if base else _plain(value))
            told, of = one['paper'][number], base['paper'][number] if base else 1
            cells.append(f'{told / of:.2f}' if told and of else '')
        text += line(cells)
    return text


def tables(measured):
    """A table for each figure."""
    return {f'papers/{row["row"]}': _table(row) for row in measured['rows']}
