"""The parts of a proof. Each runs for so many minutes and returns whether all is well, and its sums."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import typing


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    share: float  # of the time
    run: typing.Callable


def call(*command):
    return subprocess.run([str(word) for word in command], env={**os.environ, 'VIADUCT_BUILD': os.getcwd()},
                          check=False).returncode == 0


def with_json(*command):
    """Of a tool with --json FILE."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'sums.json')
        good = call(*command, '--json', path)
        if not os.path.exists(path):
            return False, {}
        with open(path, encoding='utf-8') as file:
            return good, json.load(file)


def simulation(source, minutes):
    path = source / 'doc/results/simulation.json'
    before = seeds_in(path)
    good = call(sys.executable, '-B', source / 'tests/sim/seeds', 'tests/sim/simulation', '--minutes', minutes)
    after = seeds_in(path)
    return good, {'seeds': after - before, 'seeds_in_all': after}


def seeds_in(path):
    if not path.exists():
        return 0
    return sum(run['seeds'] for run in json.loads(path.read_text(encoding='utf-8'))['runs'])


def storm(source, minutes):
    good, sums = with_json(source / 'tests/storm/storm', '--kills', 1_000_000, '--minutes', minutes, '--agents', 4,
                           '--pause', 0.05, '--seed', int.from_bytes(os.urandom(2), 'big'))
    kept = ('programs_killed', 'agents_killed', 'mpi_killed', 'stops', 'verified', 'mpi_verified', 'connections',
            'hangs', 'leaks', 'wrong', 'unanswered', 'survived', 'lost', 'mpi_survived', 'mpi_lost', 'seed')
    return good, {name: sums[name] for name in kept if name in sums}


def upgrades(source, minutes):
    seconds_each = 5
    return with_json(source / 'tests/storm/upgrades', '--count', max(2, int(minutes * 60 / seconds_each)))


def outages(source, minutes):
    """Kinds of outages in both placements, so many times each; they take some 90 seconds together."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'sums.json')
        good = call(source / 'tests/storm/outages', max(1, int(minutes * 60 / 90)), path)
        with open(path, encoding='utf-8') as file:
            return good, json.load(file)


def fuzz(source, minutes):
    before = fuzz_seconds(source)
    good = call(source / 'tests/fuzz/fuzz_long', 'go-on', minutes)
    after = fuzz_seconds(source)
    return good, {'fuzzed_seconds': after - before, 'fuzzed_seconds_on_this_code': after}


def fuzz_seconds(source):
    path = source / 'doc/results/fuzz.json'
    if not path.exists():
        return 0
    return sum(target['seconds'] for target in json.loads(path.read_text(encoding='utf-8'))['targets'].values())


ALL = [Part('simulation', 0.35, simulation), Part('storm', 0.3, storm), Part('upgrades', 0.1, upgrades),
       Part('outages', 0.15, outages), Part('fuzz', 0.25, fuzz)]
