"""Calls of the simulation, and what it says."""

import dataclasses
import re
import subprocess

# Counts of the summary, by the words behind or around them.
COUNTS = {
    'connections': r'(\d+) connections asked for',
    'frames': r'(\d+) frames sent',
    'frames_lost': r'(\d+) lost',
    'frames_by_train': r'(\d+) frames by train',
    'frames_by_ring': r'(\d+) by rings',
    'agents_died': r'(\d+) agents died',
    'programs_adopted': r'(\d+) programs were adopted',
    'programs_died': r'(\d+) programs died',
    'outages': r'(\d+) outages',
    'stops': r'(\d+) stops',
    'simulated_seconds': r'seeds, (\d+) simulated seconds in',
}
WORKLOADS = ['stream', 'exchange', 'rdma', 'storm', 'many-to-one', 'lanes', 'mixed', 'library']
SECONDS_OF_A_SEED = 60
DOES_NOT_END = 'not ok: does not end\n'


@dataclasses.dataclass(frozen=True)
class Failure:
    workload: str
    seed: int
    said: str

    def kind(self):
        """The same for failures that differ in numbers only."""
        return re.sub(r'0x[0-9a-f]+|\d+(\.\d+)?', '#', self.said.split(' [')[0])


def command(program, seed, workload, less):
    """The one that shows the failure."""
    return (f'{program} --seed {seed} --workload {workload}' + (f' --less {less}' if less else '') + ' --verbose')


def call(program, seconds, *options):
    """Its output, and its status; a failure that it could not tell of is told here."""
    try:
        done = subprocess.run(['nice', program, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors='replace', timeout=seconds)
    except subprocess.TimeoutExpired:
        return DOES_NOT_END, 1
    return done.stdout, done.returncode


def run_one(program, seed, workload, less=''):
    """None, or how it failed."""
    options = ['--seed', str(seed), '--workload', workload] + (['--less', less] if less else [])
    said, status = call(program, SECONDS_OF_A_SEED, *options)
    if status == 0:
        return None
    line = next((l for l in said.splitlines() if l.startswith('not ok: ')), f'not ok: status {status}')
    text = line.split(': ', 2)[-1]
    return Failure(workload, seed, re.sub(r' at [\d.]+ s$', '', text))


def run(program, first, last):
    """Counts of these seeds that passed, and failures of the others."""
    said, status = call(program, SECONDS_OF_A_SEED + (last - first + 1), '--seeds', f'{first}-{last}')
    if status == 0:
        return counts_of(said), []
    failures = [failure for seed in range(first, last + 1)
                if (failure := run_one(program, seed, WORKLOADS[seed % len(WORKLOADS)])) is not None]
    if not failures and said == DOES_NOT_END:
        return {}, []  # all end by themselves: the machine was slow, or stood still
    if not failures:
        # Seeds are the same run whatever ran before; so a failure in company is a defect of the simulation.
        failures = [Failure('several', first, said.splitlines()[-2] if said.count('\n') > 1 else said)]
    return {}, failures


def counts_of(said):
    out = {}
    for name, pattern in COUNTS.items():
        found = re.search(pattern, said)
        out[name] = int(found.group(1)) if found else 0
    return out
