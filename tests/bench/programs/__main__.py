"""Other people's programs over kernel TCP and on SOVIA, in turns, on an idle machine; see --help."""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time

import cost
import idle
import results
import rows as table
import tables
from against import worse_rows
from lab import PLACES, ROOT, Failure, Lab
from ways import WAYS, turns

NOT_IDLE = 75    # status
FIRST_PORT = 7800


def say(text):
    """At once, also into a pipe."""
    print(text, flush=True)


def arguments(words=None):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog='bench-programs', description='Measures programs over kernel TCP and on SOVIA, granted and hosted, in turns.'
        ' Refuses to begin (status 75) where less than 90 % of the processors are idle.',
        epilog='Status: 0, 1 if a row is worse than in the file of --against, 2 for a wrong call, 75 if the machine is not'
        ' idle.')
    parser.add_argument('--only', action='append', default=[], metavar='ROW',
                        help='these rows (see --list), with or without their places; may be given again')
    parser.add_argument('--places', default=','.join(PLACES), help='where (%(default)s)')
    parser.add_argument('--runs', type=int, default=5, help='of each row and way (%(default)s)')
    parser.add_argument('--list', action='store_true', help='shows the rows and what is missing for them')
    parser.add_argument('--output', default=results.FILE, metavar='FILE',
                        help='where the results go (doc/results/programs.json, from which the tables of the documents'
                        ' are made); rows that are not measured stay as they are in it')
    parser.add_argument('--against', metavar='FILE', help='earlier results: says which rows got worse')
    parser.add_argument('--not-idle', action='store_true',
                        help='measures beside other work, to try the bench; the results can\'t go into doc/results')
    options = parser.parse_args(words)
    options.places = options.places.split(',')
    for place in options.places:
        if place not in PLACES:
            parser.error(f'there is no place {place}')
    if options.runs < 1:
        parser.error('--runs wants one run at least')
    if options.not_idle and os.path.realpath(options.output).startswith(os.path.join(ROOT, 'doc') + os.sep):
        parser.error('figures from a machine that is not idle do not go into doc/: name a file with --output')
    try:
        options.rows = table.chosen(options.only, options.places)
    except KeyError as unknown:
        parser.error(f'there is no row {unknown.args[0]}')
    if options.against and not os.path.exists(options.against):
        parser.error(f'there is no file {options.against}')
    return options


def one_sample(lab, row, way, port, work):
    """Figures, or why there are none."""
    lab.environment = way.environment(row.switches)
    try:
        return row.load.sample(lab, way, port, work)
    except (Failure, OSError) as failure:
        return {'failed': ' '.join(re.sub(r'\x1b\[[0-9;]*m', '', str(failure)).split())}


def measure(row, runs, work):
    """All samples of a row, by way, in a lab of its own."""
    samples = {way.key: [] for way in WAYS}
    port = FIRST_PORT
    with Lab(PLACES[row.place]) as lab:
        for run in range(runs):
            for way in turns(run):
                port += 2  # one that was in use may not be free again at once
                samples[way.key].append(one_sample(lab, row, way, port, work))
    return samples


def show(result):
    """One row, for people."""
    if 'not_run' in result:
        say(f'  not run: {result["not_run"]}')
        return
    for way in WAYS:
        entry = result['ways'][way.key]
        if entry['median'] is None:
            say(f'  {way.title:16} failed: {entry["failed"][0]}')
            continue
        text = f'  {way.title:16} {entry["median"]:10.4g} {result["unit"]}  ({entry["min"]:.4g} to {entry["max"]:.4g})'
        text += f'  {entry["processor_s"]:.2f} s of processor time'
        if entry.get('ratio') is not None:
            text += f'  {entry["ratio"]:.2f} of TCP\'s'
        if 'failed' in entry:
            text += f'  {len(entry["failed"])} failed: {entry["failed"][0]}'
        say(text)


def after_row():
    """How idle the machine is behind a row. What the row itself leaves to the kernel to do passes within a moment."""
    time.sleep(0.5)
    look = idle.look()
    return look if look.is_quiet else idle.look()


def measure_row(row, options, before, work):
    """One row and how idle the machine was behind it. What other work may have touched is measured again, once."""
    missing = row.load.missing()
    if missing:
        return results.not_run(row, missing), before
    for _ in range(2):
        try:
            samples = measure(row, options.runs, work)
        except Failure as failure:
            return results.not_run(row, str(failure)), after_row()
        after = after_row()
        if after.is_quiet or options.not_idle:
            return results.row_result(row, samples, (before.idle_percent, after.idle_percent)), after
        say(f'  {after}: not counted')
        before = idle.look() if options.not_idle else idle.calm()
        if not before.is_quiet:
            break
    return results.not_run(row, f'the machine was not idle: {after}'), before


def measure_all(options, first, work):
    """The results of all rows that were chosen, and whether the machine stayed idle."""
    done, look = [], first
    for number, row in enumerate(options.rows, 1):
        if not (look.is_quiet or options.not_idle):
            look = idle.look() if options.not_idle else idle.calm()
        say(f'{number}/{len(options.rows)} {row.key}: {row.title} ({look.idle_percent:.0f} % idle)')
        if look.is_quiet or options.not_idle:
            result, look = measure_row(row, options, look, work)
        else:
            result = results.not_run(row, f'the machine was not idle: {look}')
        show(result)
        done.append(result)
        save(options, first, [result])
    return done, all('not_run' not in each or 'not idle' not in each['not_run'] for each in done)


def save(options, first, done):
    """Puts these rows into the file of results: a run that is stopped has lost none that it showed."""
    new = {'what': 'other people\'s programs over kernel TCP and on SOVIA, in turns: make bench-programs',
           'date': results.now(), **results.source(), **results.machine(), 'runs': options.runs,
           'idle_percent_at_the_begin': round(first.idle_percent, 1),
           'rows': results.merged(results.read(options.output), done, [row.key for row in table.ROWS])}
    results.write(options.output, new)


def listed(rows):
    """A line for each row."""
    for row in rows:
        missing = row.load.missing()
        say(f'{row.key:28} {row.title}' + (f' ({missing})' if missing else ''))


def main():
    """Returns the exit status."""
    options = arguments()
    if options.list:
        listed(options.rows)
        return 0
    if os.geteuid() != 0:
        sys.exit('bench-programs: must be run as root: it makes network namespaces')
    first = idle.look()
    if not (first.is_quiet or options.not_idle):
        print(f'bench-programs: the machine is not idle, and nothing is measured: {first}', file=sys.stderr)
        return NOT_IDLE
    # Before the file is written: --against may name the same one.
    old = results.read(options.against) if options.against else None
    work = tempfile.mkdtemp(prefix='bench-programs-')
    try:
        os.chmod(work, 0o755)
        done, stayed_idle = measure_all(options, first, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f'the results are in {options.output}')
    if os.path.realpath(options.output) == results.FILE:
        for path in tables.update(ROOT):
            say(f'{path} has new tables')
    worse = worse_rows(old, {'rows': done}) if old else []
    for line in worse:
        say(f'worse: {line}')
    return NOT_IDLE if not stayed_idle else 1 if worse else 0


if __name__ == '__main__':
    sys.exit(cost.main(sys.argv[2:]) if sys.argv[1:2] == ['cost'] else main())
