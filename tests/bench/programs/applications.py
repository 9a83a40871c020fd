"""The papers' applications: results of tests/bench/applications, and their tables."""

from statistics import median, quantiles

import papers
import results

NETWORK = 'switch'


def spread(values):
    """Median and quartiles; nothing of no values."""
    if not values:
        return None
    first, _, third = quantiles(values, n=4, method='inclusive') if len(values) > 1 else values * 3
    return {'median': median(values), 'q1': first, 'q3': third}


def row_result(figure, samples, failed, idle):
    """One figure. `samples` are those of all ways: {line: {point: value}}; `failed` has texts by the ways' titles."""
    lines = []
    for line in figure.lines:
        values = [[each[line.name][point] for each in samples if point in each.get(line.name, {})] for point in figure.points]
        lines.append({'name': line.name, 'paper': list(line.paper), NETWORK: [spread(each) for each in values]})
    row = {'row': figure.name, 'title': figure.title, 'unit': figure.unit, 'reference': figure.reference, 'of': figure.of,
           'points': list(figure.points), 'date': results.now(), **results.source(),
           'idle_percent': [round(each, 1) for each in idle], 'lines': lines}
    return {**row, 'failed': failed} if failed else row


def not_run(figure, reason):
    """A figure that was not measured."""
    return {'row': figure.name, 'title': figure.title, 'date': results.now(), **results.source(), 'not_run': reason}


def is_measured(row):
    """Whether a row has a value at least."""
    return any(value for line in row.get('lines', []) for value in line[NETWORK])


def _note(row):
    """When, and how idle, if the row was."""
    text = f'{row["title"]}. Measured on {row["date"][:10]} at commit {row["commit"]}' + \
        (' with changes' if row.get('dirty') else '')
    if row.get('idle_percent'):
        text += f', processors idle to {min(row["idle_percent"]):.0f} % at least before and behind'
    for way, reasons in row.get('failed', {}).items():
        text += f'; {len(reasons)} of {way} failed'
    return text + '.\n\n'


def tables(measured):
    """A table for each figure."""
    made = {}
    for row in measured['rows']:
        if 'not_run' in row or not is_measured(row):
            made[f'applications/{row["row"]}'] = f'*Not measured: {row.get("not_run", "all samples failed")}.*\n'
        else:
            made[f'applications/{row["row"]}'] = _note(row) + papers.table(row, range(len(row['points'])))
    return made
