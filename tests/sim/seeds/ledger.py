"""The results file: how many seeds were run on which code."""

import datetime
import hashlib
import json
import os
import subprocess
import tempfile

import world

# What is simulated, and what simulates it. A change elsewhere leaves what seeds show as it is.
CODE = ['kagent/contract', 'kagent/stack', 'vipl', 'xdp', 'sovia/lane/lane*', 'sovia/lane/control_sender.*',
        'sovia/lane/credits.h', 'sovia/lane/packet.h', 'sovia/lane/ring.h', 'sovia/lane/spill.h', 'tests/sim',
        ':!tests/sim/*_test.cc', ':!tests/sim/mutations', ':!tests/sim/seeds*', ':!tests/sim/regressions.inc']
WHAT = 'seeds of the simulation, and what they have met: make simulation-seeds'


def git(source, *words):
    return subprocess.run(['git', '-C', source, *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Run:
    """Seeds that were run on one state of the code."""

    def __init__(self, path, runs, entry):
        self.path, self.runs, self.entry = path, runs, entry

    @classmethod
    def of(cls, source, path):
        """The entry for the code as it is, or a new one."""
        dirty = bool(git(source, 'status', '--porcelain', '--', *CODE))
        files = git(source, 'ls-files', '--stage', '--', *CODE)
        code = hashlib.sha256(files.encode()).hexdigest()[:12]
        runs = json.loads(path.read_text())['runs'] if path.exists() else []
        if dirty:
            code += ' changed'
        entry = next((each for each in runs if each['code'] == code), None)
        if entry is None:
            entry = {'code': code, 'commit': git(source, 'rev-parse', '--short=12', 'HEAD'), 'dirty': dirty,
                     'seconds': 0, 'seeds': 0, 'ranges': [], 'counts': {}, 'failing': []}
            runs.append(entry)
        return cls(path, runs, entry)

    def seeds(self):
        return self.entry['seeds']

    def failing(self):
        return self.entry['failing']

    def knows(self, failure):
        return any(each['seed'] == failure.seed and each['workload'] == failure.workload for each in self.failing())

    def keep(self, failure, less):
        self.failing().append({'workload': failure.workload, 'seed': failure.seed, 'said': failure.said,
                               'command': world.command('tests/sim/simulation', failure.seed, failure.workload, less)})

    def chunks(self, last, size):
        """Those up to the last seed that were not run."""
        done = sorted(map(tuple, self.entry['ranges']))
        at = 1
        for first, end in done + [(last + 1, last + 1)]:
            while at < min(first, last + 1):
                upto = min(at + size, first, last + 1) - 1
                yield at, upto
                at = upto + 1
            at = max(at, end + 1)

    def add(self, chunk, counts):
        self.entry['seeds'] += chunk[1] - chunk[0] + 1
        merged = []
        for first, last in sorted(map(tuple, self.entry['ranges'] + [chunk])):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        self.entry['ranges'] = merged
        for name, count in counts.items():
            self.entry['counts'][name] = self.entry['counts'].get(name, 0) + count

    def took(self, seconds):
        self.entry['seconds'] = round(self.entry['seconds'] + seconds)

    def write(self):
        self.entry['date'] = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')
        if not self.entry['seeds']:
            return
        with tempfile.NamedTemporaryFile('w', dir=self.path.parent, delete=False) as file:
            json.dump({'what': WHAT, 'runs': self.runs}, file, indent=1)
            file.write('\n')
        os.chmod(file.name, 0o644)
        os.replace(file.name, self.path)
