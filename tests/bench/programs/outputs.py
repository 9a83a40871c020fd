"""Figures from what programs print. Each function takes the text and returns a dictionary whose `value` is the row's
figure; a text without one is a ValueError."""

import json
import re


def _number(pattern, text, what):
    found = re.search(pattern, text, re.MULTILINE)
    if not found:
        raise ValueError(f'{what} does not say a figure')
    return float(found.group(1))


def sockperf(text):
    """Time one way: half of a round trip."""
    return {'value': _number(r'percentile 50\.000 = +([0-9.]+)', text, 'sockperf'),
            'p99': _number(r'percentile 99\.000 = +([0-9.]+)', text, 'sockperf')}


def redis(text):
    """Thousands of requests a second, of redis-benchmark --csv. Later versions print more columns."""
    return {'value': _number(r'^"GET","([0-9.]+)"', text, 'redis-benchmark') / 1e3}


def wrk(text):
    """Thousands of requests a second. Errors are counted, as a rate with errors is not worth the same."""
    errors = re.search(r'Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)', text)
    bad = re.search(r'Non-2xx or 3xx responses: (\d+)', text)
    return {'value': _number(r'^Requests/sec: +([0-9.]+)', text, 'wrk') / 1e3,
            'errors': sum(map(int, errors.groups())) if errors else 0,
            'bad_answers': int(bad.group(1)) if bad else 0}


def curl(text, size):
    """Seconds, of a line "time bytes"."""
    found = re.search(r'^([0-9.]+) (\d+)$', text, re.MULTILINE)
    if not found or int(found.group(2)) != size:
        raise ValueError(f'curl got {found.group(2) if found else "no"} bytes')
    return {'value': float(found.group(1))}


def iperf3(text):
    """Gb/s at the receiver."""
    try:
        # The library's lines on standard error stand behind the object.
        report = json.JSONDecoder().raw_decode(text, text.index('{'))[0]
        return {'value': report['end']['sum_received']['bits_per_second'] / 1e9}
    except (ValueError, KeyError) as problem:
        raise ValueError(f'iperf3 does not say a figure: {text.strip()[-100:]}') from problem


def netpipe(text):
    """us one way, of a row of NPtcp."""
    return {'value': _number(r'--> +[0-9.]+ Mbps in +([0-9.]+) usec', text, 'NPtcp')}


def pgbench(text):
    """Thousands of transactions a second."""
    failed = re.search(r'number of failed transactions: (\d+)', text)
    if failed and int(failed.group(1)) != 0:
        raise ValueError(f'pgbench counts {failed.group(1)} failed transactions')
    return {'value': _number(r'^tps = ([0-9.]+)', text, 'pgbench') / 1e3}


def memaslap(text):
    """Thousands of operations a second."""
    return {'value': _number(r'TPS: (\d+)', text, 'memaslap') / 1e3}


def milliseconds(text):
    """Of this bench's own programs: a line "ms FIGURE"."""
    return {'value': _number(r'^ms ([0-9.]+)$', text, 'the program')}


def ping(text):
    """us one way, of viaping --json or tcpping --json."""
    return {'value': _number(r'"median":([0-9.]+)', text, 'the program'),
            'p99': _number(r'"p99":([0-9.]+)', text, 'the program')}


def stream(text):
    """Mb/s, of viaping --json or tcpping --json."""
    return {'value': _number(r'"mbit_s":([0-9.]+)', text, 'the program')}
