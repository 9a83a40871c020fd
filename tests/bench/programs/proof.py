"""Tables of what reliability was tried with: doc/results/simulation.json and proof.json."""

from markdown import head, line


def _on(run):
    return f'{run["commit"]}' + (' with changes' if run.get('dirty') else '')


def _number(counts, name):
    return f'{counts.get(name, 0):,}'


def simulation_tables(measured):
    """A line for each state of the code that seeds were run on."""
    text = head('last run', 'commit', 'seeds', 'failing', 'frames', 'of these by train', 'by ring', 'agents that died',
                'programs that died', 'outages and stops of a second and more')
    for run in measured['runs']:
        counts = run['counts']
        text += line([run['date'][:10], _on(run), f'{run["seeds"]:,}', str(len(run['failing'])),
                      *(_number(counts, name) for name in ('frames', 'frames_by_train', 'frames_by_ring', 'agents_died',
                                                           'programs_died')),
                      f'{counts.get("outages", 0) + counts.get("stops", 0):,}'])
    return {'simulation/seeds': text}


def _sums(runs):
    """Numbers of all runs of a part are added; the longest of times and the like stay as they are."""
    sums = {}
    for run in runs:
        for name, value in run.items():
            if name in ('part', 'seconds', 'good', 'seed') or name.endswith('in_all') or name.endswith('this_code'):
                continue
            if isinstance(value, (int, float)):
                sums[name] = max(sums.get(name, 0), value) if name.endswith('_ms') else sums.get(name, 0) + value
    return ', '.join(f'{name.replace("_", " ")} {value:,}' for name, value in sums.items())


def proof_tables(measured):
    """The sums of each part, over all runs."""
    text = head('part', 'runs', 'failed', 'minutes', 'from', 'to', 'sums')
    names = []
    for run in measured['runs']:
        names += [part['part'] for part in run['parts'] if part['part'] not in names]
    for name in names:
        dated = [(run['date'], part) for run in measured['runs'] for part in run['parts'] if part['part'] == name]
        parts = [part for _, part in dated]
        text += line([name, str(len(parts)), str(sum(not part['good'] for part in parts)),
                      f'{sum(part["seconds"] for part in parts) / 60:.0f}', dated[0][0][:10], dated[-1][0][:10],
                      _sums(parts)])
    return {'proof/sums': text}
