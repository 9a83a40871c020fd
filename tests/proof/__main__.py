"""A share of all that reliability is tried with, in the time that it is given; see --help."""

import argparse
import json
import os
import pathlib
import sys
import time

import parts

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / 'tests/bench/programs'))
import results  # noqa: E402, pylint: disable=wrong-import-position

RESULTS = SOURCE / 'doc/results/proof.json'


def arguments():
    parser = argparse.ArgumentParser(
        prog='proof',
        description='Runs seeds of the simulation, a storm, upgrades, outages and fuzz targets, each for its share '
                    'of the time, and adds what they say to the results. To be run in the build tree, as root. '
                    'Status 1 if anything fails.')
    parser.add_argument('--minutes', type=float, default=60, help='of all together (default: %(default)s)')
    parser.add_argument('--only', default='', help=f'of {",".join(part.name for part in parts.ALL)}')
    parser.add_argument('--results', type=pathlib.Path, default=RESULTS, help='default: %(default)s')
    return parser.parse_args()


def add(path, entry):
    entries = json.loads(path.read_text(encoding='utf-8'))['runs'] if path.exists() else []
    text = json.dumps({'what': 'shares of what reliability is tried with: make proof', 'runs': entries + [entry]},
                      indent=1)
    new = path.with_suffix('.new')
    new.write_text(text + '\n', encoding='utf-8')
    os.replace(new, path)


def run(part, minutes):
    print(f'--- {part.name}: {minutes:.1f} minutes', flush=True)
    begun = time.time()
    good, sums = part.run(SOURCE, minutes)
    words = {name.replace('_', ' '): value for name, value in sums.items()}
    said = ', '.join(f'{value:,} {name}' if isinstance(value, int) else f'{name} {value}'
                     for name, value in words.items())
    print(f'{"ok" if good else "not ok"}: {part.name}: {said or "nothing was counted"}', flush=True)
    return {'part': part.name, 'seconds': round(time.time() - begun), 'good': good, **sums}


def main():
    options = arguments()
    wanted = [part for part in parts.ALL if not options.only or part.name in options.only.split(',')]
    if not wanted:
        sys.exit(f'proof: there is no part {options.only}')
    shares = sum(part.share for part in wanted)
    entry = {'date': results.now(), **results.source(), 'minutes': options.minutes, 'parts': []}
    try:
        for part in wanted:
            entry['parts'].append(run(part, options.minutes * part.share / shares))
    finally:
        if entry['parts']:
            add(options.results, entry)
    return 0 if all(part['good'] for part in entry['parts']) else 1


sys.exit(main())
