"""Makes a world that fails smaller: fewer hosts, jobs, messages, faults."""

import re

import world

PARTS = ['crimes', 'trains', 'rings', 'granted', 'faults']
MESSAGES = [16, 4, 2]


def text(hosts, jobs, messages, without):
    items = ([f'hosts={hosts}'] if hosts else []) + ([f'jobs={jobs}'] if jobs else [])
    items += [f'messages=1/{messages}'] if messages else []
    items += ['without=' + '+'.join(without)] if without else []
    return ','.join(items)


def events_of(program, failure):
    said, _ = world.call(program, world.SECONDS_OF_A_SEED, '--seed', str(failure.seed), '--workload', failure.workload,
                         '--verbose')
    found = re.search(r'troubles (\d+) in', said)
    return min(int(found.group(1)), 64) if found else 0


def smallest(program, failure):
    """What may be left out, as --less has it."""
    if failure.workload not in world.WORKLOADS:
        return ''
    state = {'hosts': None, 'jobs': None, 'messages': None, 'without': []}

    def fails(**change):
        less = text(**{**state, **change})
        found = world.run_one(program, failure.seed, failure.workload, less)
        return found is not None and found.kind() == failure.kind()

    def try_to(**change):
        if fails(**change):
            state.update(change)
            return True
        return False

    def leave_out(part):
        return try_to(without=state['without'] + [part])

    for jobs in (1, 2):
        if try_to(jobs=jobs):
            break
    try_to(hosts=2)
    for messages in MESSAGES:
        if try_to(messages=messages):
            break
    for part in PARTS + [f'event{e}' for e in range(events_of(program, failure))]:
        leave_out(part)
    return text(**state)
