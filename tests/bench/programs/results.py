"""The file of results: doc/results/programs.json."""

import json
import os
import platform
import re
import subprocess
from datetime import datetime, timezone

from figures import digest, ratio
from lab import ROOT
from ways import WAYS

FILE = os.path.join(ROOT, 'doc', 'results', 'programs.json')


def now():
    """For `date`."""
    return datetime.now(timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def _git(*words):
    result = subprocess.run(['git', '-c', 'safe.directory=*', '-C', ROOT, *words], capture_output=True, text=True,
                            check=False)
    return result.stdout.strip() if result.returncode == 0 else None


def source():
    """Which sources were measured. Results that are written there make no tree dirty."""
    changed = _git('status', '--porcelain', '--', ':!doc', ':!README.md')
    return {'commit': _git('rev-parse', '--short=12', 'HEAD'), 'dirty': bool(changed) if changed is not None else None}


def machine():
    """Where they were measured."""
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        model = re.search(r'^model name\s*: (.*)$', file.read(), re.MULTILINE)
    return {'kernel': platform.release(), 'processors': os.cpu_count(), 'model': model.group(1) if model else None}


def row_result(row, samples, idle):
    """One row. `samples` are figures and failures by way; `idle` is how idle the machine was before and after."""
    result = {'row': row.key, 'title': row.title, 'place': row.place, 'unit': row.unit, 'better': row.better,
              'switches': row.switches, 'date': now(), **source(), 'idle_percent': [round(each, 1) for each in idle],
              'ways': {}}
    base = None
    for way in WAYS:
        good = [each for each in samples[way.key] if 'failed' not in each]
        entry = digest([each['value'] for each in good])
        base = entry['median'] if way.key == 'tcp' else base
        if way.is_sovia:
            entry['ratio'] = ratio(entry['median'], base)
        entry['processor_s'] = digest([each['processor_s'] for each in good])['median']
        for also in ('p99', 'stream_gbit_s'):
            if any(also in each for each in good):
                entry[also] = digest([each[also] for each in good])['median']
        for fault in ('errors', 'bad_answers'):
            if sum(each.get(fault, 0) for each in good):
                entry[fault] = sum(each.get(fault, 0) for each in good)
        entry['samples'] = [each['value'] for each in good]
        failed = [each['failed'] for each in samples[way.key] if 'failed' in each]
        if failed:
            entry['failed'] = failed
        result['ways'][way.key] = entry
    return result


def not_run(row, reason):
    """A row without figures."""
    return {'row': row.key, 'title': row.title, 'place': row.place, 'unit': row.unit, 'better': row.better,
            'date': now(), **source(), 'not_run': reason}


def read(path):
    """A file of results, or nothing where there is none."""
    if not os.path.exists(path):
        return None
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def merged(old, new_rows, order):
    """Rows of a file with those that were measured again in their places. `order` has all keys."""
    rows = {row['row']: row for row in (old or {}).get('rows', [])}
    rows.update({row['row']: row for row in new_rows})
    return [rows[key] for key in order if key in rows]


def _rounded(value):
    """Six digits are more than any figure here is worth."""
    if isinstance(value, float):
        return float(f'{value:.6g}')
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def text_of(results):
    """As the file has it: lists of numbers in one line."""
    text = json.dumps(_rounded(results), indent=1, ensure_ascii=False)
    return re.sub(r'\[[\s0-9.,e+-]*\]', lambda found: ' '.join(found.group().split()), text) + '\n'


def write(path, results):
    """In one step, so that a reader never sees half of a file."""
    write_text(path, text_of(results))


def write_text(path, text):
    """The same with the text of a file."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + '.new', 'w', encoding='utf-8') as file:
        file.write(text)
    os.replace(path + '.new', path)
