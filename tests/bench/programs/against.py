"""Whether rows got worse: this run beside an earlier one.

What is compared is SOVIA's figure in kernel TCP's of the same run, for absolute figures do not carry over from one hour
of a machine to another. A row got worse by more than its spread if each run's median lies beyond all samples of the
other run, on the worse side."""

from figures import is_worse, spread_in
from ways import WAYS


def _spreads(row):
    """By way: least, median and most of SOVIA's samples in TCP's median; no ways where the row was not measured."""
    ways = row.get('ways', {})
    if not ways.get('tcp', {}).get('median'):
        return {}
    return {way.key: spread_in(ways['tcp'], ways[way.key]) for way in WAYS
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
        old_spreads, new_spreads = _spreads(before[row['row']]), _spreads(row)
        for way, spread in old_spreads.items():
            if way not in new_spreads:
                reason = row.get('not_run') or '; '.join(row['ways'].get(way, {}).get('failed', ['kernel TCP failed']))
                lines.append(f'{row["row"]}, {way}: no figure any more: {reason}')
            elif got_worse(row['better'], spread, new_spreads[way]):
                lines.append(f'{row["row"]}, {way}: {_text(new_spreads[way])} of kernel TCP\'s {_what(row)}, before '
                             f'{_text(spread)}')
    return lines


def _text(spread):
    return '{1:.2f} ({0:.2f} to {2:.2f})'.format(*spread)


def _what(row):
    return 'rate' if row['better'] == 'more' else 'time'
