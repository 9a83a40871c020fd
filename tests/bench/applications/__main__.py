"""The applications of the papers over kernel TCP and on SOVIA, in turns, on an idle machine; see --help."""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from itertools import count, groupby

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), 'programs'))
# pylint: disable=wrong-import-position
import applications
import datacentre
import datacutter
import filesystem
import idle
import ksovia
import results
import rpc
import tables
from application import Turn, turns
from lab import ROOT, Failure, Lab

NOT_IDLE = 75    # status
FIRST_PORT = 7800
FILE = os.path.join(ROOT, 'doc', 'results', 'applications.json')
ALL = (*datacentre.APPLICATIONS, *datacutter.APPLICATIONS, *filesystem.APPLICATIONS, *rpc.APPLICATIONS,
       *ksovia.APPLICATIONS)


def say(text):
    """At once, also into a pipe."""
    print(text, flush=True)


def chosen(names):
    """The applications that these are the names of, or the names of whose figures; all of no names."""
    known = {name for each in ALL for name in (each.name, *(figure.name for figure in each.figures))}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return [each for each in ALL if not names or each.name in names or any(figure.name in names for figure in each.figures)]


def arguments(words=None):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog='bench-applications', description='Measures the applications of the papers over kernel TCP and on SOVIA, in'
        ' turns, on hosts of a switch. Refuses to begin (status 75) where less than 90 % of the processors are idle.',
        epilog='Status: 0, 1 if a sample failed, 2 for a wrong call, 75 if the machine is not idle.')
    parser.add_argument('--only', default='', metavar='NAME,...', help='these applications or figures (see --list)')
    parser.add_argument('--rounds', type=int, metavar='N', help='of each application and way (5; 1 with --quick)')
    parser.add_argument('--quick', action='store_true', help='one round of few requests')
    parser.add_argument('--list', action='store_true', help='shows the applications and what is missing for them')
    parser.add_argument('--output', default=FILE, metavar='FILE',
                        help='where the results go (doc/results/applications.json, from which the tables of doc/papers.md'
                        ' are made); figures that are not measured stay as they are in it')
    parser.add_argument('--not-idle', action='store_true',
                        help='measures beside other work, to try the bench; the results can\'t go into doc/results')
    options = parser.parse_args(words)
    options.rounds = options.rounds or (1 if options.quick else 5)
    if options.rounds < 1:
        parser.error('--rounds wants one round at least')
    if options.not_idle and os.path.realpath(options.output).startswith(os.path.join(ROOT, 'doc') + os.sep):
        parser.error('figures from a machine that is not idle do not go into doc/: name a file with --output')
    try:
        options.chosen = chosen([name for name in options.only.split(',') if name])
    except KeyError as unknown:
        parser.error(f'there is no application or figure {unknown.args[0]}')
    return options


def one_sample(application, turn):
    """Figures, or why there are none."""
    turn.lab.environment = turn.way.environment(application.switches)
    try:
        return application.sample(turn), None
    except (Failure, OSError) as failure:
        return {}, ' '.join(re.sub(r'\x1b\[[0-9;]*m', '', str(failure)).split())


def measure(application, lab, options, work, ports):
    """All samples of an application, and its failures by way."""
    samples, failed = [], {}
    for number in range(options.rounds):
        for way in turns(application.ways, number):
            begin = time.monotonic()
            # Ports that were in use may not be free again at once.
            sample, failure = one_sample(application, Turn(lab, way, work, next(ports), options.quick))
            say(f'  round {number + 1}, {way.title}: {failure or "done"} ({time.monotonic() - begin:.1f} s)')
            samples.append(sample)
            if failure:
                failed.setdefault(way.title, []).append(failure)
    return samples, failed


def show(row):
    """One figure, for people."""
    say(f'  {row["title"]}, {row["unit"]}')
    say(f'    {"":28}' + ''.join(f'{str(point) + " " + row["of"]:>14}' for point in row['points']))
    for line in row['lines']:
        say(f'    {line["name"]:28}' + ''.join(f'{value["median"]:14.5g}' if value else f'{"-":>14}'
                                               for value in line[applications.NETWORK]))


def measure_application(application, lab, options, work, ports):
    """The rows of its figures."""
    missing = application.missing()
    before = idle.look() if options.not_idle else idle.calm()
    if not missing and not before.is_quiet and not options.not_idle:
        missing = f'the machine was not idle: {before}'
    if missing:
        say(f'  not run: {missing}')
        return [applications.not_run(figure, missing) for figure in application.figures]
    samples, failed = measure(application, lab, options, work, ports)
    time.sleep(0.5)
    after = idle.look()
    rows = [applications.row_result(figure, [each[figure.name] for each in samples if figure.name in each], failed,
                                    (before.idle_percent, after.idle_percent)) for figure in application.figures]
    for row in rows:
        show(row)
    return rows


def measure_all(options, work):
    """The rows of all that were chosen. Applications with the same hosts that come one after the other share a lab."""
    rows, ports = [], count(FIRST_PORT, 10)
    for _, group in groupby(options.chosen, key=lambda each: each.hosts):
        group = list(group)
        try:
            with Lab(group[0].place()) as lab:
                for application in group:
                    say(application.name)
                    rows += measure_application(application, lab, options, work, ports)
                    save(options, rows)
        except Failure as failure:
            say(f'no lab: {failure}')
            known = {row['row'] for row in rows}
            rows += [applications.not_run(figure, str(failure)) for each in group for figure in each.figures
                     if figure.name not in known]
            save(options, rows)
    return rows


def save(options, rows):
    """Puts these rows into the file of results: a run that is stopped has lost none that it showed."""
    order = [figure.name for each in ALL for figure in each.figures]
    results.write(options.output, {
        'what': "the papers' applications over kernel TCP and on SOVIA, in turns: make bench-applications",
        'date': results.now(), **results.source(), **results.machine(), 'rounds': options.rounds,
        'rows': results.merged(results.read(options.output), rows, order)})


def listed():
    """A line for each application, and one for each of its figures."""
    for each in ALL:
        missing = each.missing()
        say(each.name + (f' ({missing})' if missing else ''))
        for figure in each.figures:
            say(f'  {figure.name:28} {figure.title}')


def main():
    """Returns the exit status."""
    options = arguments()
    if options.list:
        listed()
        return 0
    if os.geteuid() != 0:
        sys.exit('bench-applications: must be run as root: it makes network namespaces')
    first = idle.look()
    if not (first.is_quiet or options.not_idle):
        print(f'bench-applications: the machine is not idle, and nothing is measured: {first}', file=sys.stderr)
        return NOT_IDLE
    work = tempfile.mkdtemp(prefix='bench-applications-')
    try:
        os.chmod(work, 0o755)
        rows = measure_all(options, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f'the results are in {options.output}')
    if os.path.realpath(options.output) == FILE:
        for path in tables.update(ROOT):
            say(f'{path} has new tables')
    if any('not idle' in row.get('not_run', '') for row in rows):
        return NOT_IDLE
    return 1 if any('failed' in row or 'not_run' in row for row in rows) else 0


if __name__ == '__main__':
    sys.exit(main())
