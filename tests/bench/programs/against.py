"""Whether rows got worse: this run beside an earlier one.

Two figures are compared: SOVIA's own, and SOVIA's in kernel TCP's of the same run. The first changes from one hour of a
machine to another, the second when kernel TCP does: two programs that take turns on one processor may be ten times as fast
as the same two on two processors. A row got worse by more than its spread if in both figures each run's median lies
beyond all samples of the other run, on the worse side."""

from figures import is_worse, spread_in
from ways import WAYS


def _spreads(row):
    """By way: least, median and most of SOVIA's samples, and the same in TCP's median; no ways where the row was not
    measured."""
    ways = row.get('ways', {})
    if not ways.get('tcp', {}).get('median'):
        return {}
    return {way.key: (spread_in({'median': 1}, ways[way.key]), spread_in(ways['tcp'], ways[way.key])) for way in WAYS
            if way.is_sovia and ways.get(way.key, {}).get('median') is not None}


def got_worse(better, before, after):
    """Of two spreads."""
    low, middle, high = before
    new_low, new_middle, new_high = after
    if better == 'more':
        return is_worse(better, new_middle, low) and is_worse(better, new_high, middle)
    return is_worse(better, new_middle, high) and is_worse(better, new_low, middle)


def worse_rows(old, new):
    """A line for each row and way of the new results that is worse than in the old ones. Rows that only one of the
    two has are no matter, but one that could be measured before and can't be any more is worse."""
    before = {row['row']: row for row in old['rows']}
    lines = []
    for row in new['rows']:
        if row['row'] not in before:
            continue
        new_spreads = _spreads(row)
        for way, was in _spreads(before[row['row']]).items():
            now = new_spreads.get(way)
            if now is None:
                reason = row.get('not_run') or '; '.join(row['ways'].get(way, {}).get('failed', ['kernel TCP failed']))
                lines.append(f'{row["row"]}, {way}: no figure any more: {reason}')
            elif all(got_worse(row['better'], *pair) for pair in zip(was, now)):
                lines.append(f'{row["row"]}, {way}: {_text(now[0])} {row["unit"]}, before {_text(was[0])}; of kernel '
                             f'TCP\'s {_what(row)} {_text(now[1])}, before {_text(was[1])}')
    return lines


def _text(spread):
    return '{1:.4g} ({0:.4g} to {2:.4g})'.format(*spread)


def _what(row):
    return 'rate' if row['better'] == 'more' else 'time'
