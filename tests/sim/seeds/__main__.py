"""Runs many seeds of the simulation, on all processors, and goes on where it stopped; see --help."""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import sys
import tempfile
import time

import ledger
import shrink
import world

SOURCE = pathlib.Path(__file__).resolve().parents[3]
RESULTS = SOURCE / 'doc/results/simulation.json'


def arguments():
    parser = argparse.ArgumentParser(
        prog='seeds',
        description='Runs seeds of tests/sim/simulation that have not been run on this code, keeps the count in '
                    'the results file, makes seeds that fail small, and prints the command that shows each.')
    parser.add_argument('simulation', type=pathlib.Path, help='the program')
    parser.add_argument('--to', type=int, default=1_000_000, help='the last seed (default: %(default)s)')
    parser.add_argument('--minutes', type=float, default=60, help='the most that this may take (default: %(default)s)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count(), help='processes (default: one for each processor)')
    parser.add_argument('--chunk', type=int, default=400, help='seeds of a process (default: %(default)s)')
    parser.add_argument('--results', type=pathlib.Path, default=RESULTS, help='default: %(default)s')
    parser.add_argument('--most-failing', type=int, default=20, help='end after so many (default: %(default)s)')
    return parser.parse_args()


class Show:
    """Progress: in place on a terminal, else now and then."""

    def __init__(self, run):
        self.run, self.begun, self.first, self.next = run, time.time(), run.seeds(), 0

    def __call__(self, last=False):
        now = time.time()
        terminal = sys.stdout.isatty()
        if not last and now < self.next:
            return
        self.next = now + (1 if terminal else 60)
        done = self.run.seeds() - self.first
        rate = done / max(now - self.begun, 1)
        line = f'{self.run.seeds():,} seeds on this code, {rate:.0f} a second, {len(self.run.failing())} failing'
        print(f'\r{line}  ' if terminal else line, end='\n' if last or not terminal else '', flush=True)


def look_at(run, program, failures):
    """Keeps what has failed, made small. True if there was anything new."""
    new = [failure for failure in failures if not run.knows(failure)]
    for failure in new:
        less = shrink.smallest(program, failure)
        run.keep(failure, less)
        print(f'\nnot ok: {failure.workload}, seed {failure.seed}: {failure.said}\n'
              f'  {world.command("tests/sim/simulation", failure.seed, failure.workload, less)}', flush=True)
    return bool(new)


def go_through(run, program, options):
    deadline = time.time() + options.minutes * 60
    show = Show(run)
    chunks = run.chunks(options.to, options.chunk)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        busy = {}
        while True:
            while len(busy) < options.jobs and time.time() < deadline and len(run.failing()) < options.most_failing:
                chunk = next(chunks, None)
                if chunk is None:
                    break
                busy[pool.submit(world.run, program, *chunk)] = chunk
            if not busy:
                break
            finished, _ = concurrent.futures.wait(busy, return_when=concurrent.futures.FIRST_COMPLETED)
            for each in finished:
                counts, failures = each.result()
                look_at(run, program, failures)
                run.add(busy.pop(each), counts)
                run.write()
            show()
    show(last=True)


def main():
    options = arguments()
    run = ledger.Run.of(SOURCE, options.results)
    with tempfile.TemporaryDirectory() as folder:
        # A build that goes on meanwhile changes nothing.
        program = shutil.copy(options.simulation, folder)
        begun = time.time()
        try:
            go_through(run, program, options)
        except KeyboardInterrupt:
            print('\nstopped; the next call goes on')
        run.took(time.time() - begun)
        run.write()
    for failure in run.failing():
        print(f'not ok: {failure["workload"]}, seed {failure["seed"]}: {failure["command"]}')
    return 1 if run.failing() else 0


sys.exit(main())
