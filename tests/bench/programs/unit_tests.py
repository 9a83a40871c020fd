#!/usr/bin/python3
"""Tests of what the bench computes: statistics, idleness, figures from outputs, rows, comparison, tables."""

import json
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.append(os.path.join(os.path.dirname(sys.path[0]), 'applications'))
# pylint: disable=wrong-import-position
import against
import apache
import application
import applications
import benches
import cost
import datacentre
import figures
import filesystem
import idle
import outputs
import results
import rows
import rpc
import tables
import viabench
import web_trace
from lab import Failure
from ways import WAYS, turns


def sample(value, **more):
    """One that counts."""
    return {'value': value, 'processor_s': 1.5, **more}


def row_of(key='two-hosts/redis-1', **values):
    """The result of a row: samples by way."""
    row = next(each for each in rows.ROWS if each.key == key)
    return results.row_result(row, {way: [sample(value) for value in values.get(way, [])] for way in
                                    ('tcp', 'granted', 'hosted')}, (97.0, 96.0))


class Figures(unittest.TestCase):
    """Statistics."""

    def test_the_middle_sample_is_the_median_whatever_their_order(self):
        self.assertEqual(figures.digest([5.0, 1.0, 3.0]), {'median': 3.0, 'min': 1.0, 'max': 5.0})
        self.assertEqual(figures.digest([1.0, 2.0])['median'], 1.5)

    def test_no_samples_have_no_median(self):
        self.assertEqual(figures.digest([]), {'median': None, 'min': None, 'max': None})

    def test_there_is_no_ratio_to_nothing(self):
        self.assertEqual(figures.ratio(3.0, 2.0), 1.5)
        for value, base in ((None, 2.0), (2.0, None), (2.0, 0)):
            self.assertIsNone(figures.ratio(value, base))

    def test_each_way_is_the_first_one_in_its_turn(self):
        self.assertEqual([turns(run)[0].key for run in range(4)], ['tcp', 'granted', 'hosted', 'tcp'])
        self.assertEqual({way.key for way in turns(2)}, {way.key for way in WAYS})


class Idle(unittest.TestCase):
    """What /proc says."""

    def test_waiting_for_a_disk_is_idle_and_stolen_time_is_not(self):
        #       user nice system idle iowait irq softirq steal guest guest_nice
        stat = 'cpu 10 20 30 400 50 6 7 8 900 900\ncpu0 1 2 3 4\n'
        self.assertEqual(idle.times(stat), (531, 450))

    def test_a_name_with_brackets_and_blanks_is_one_name(self):
        stat = '12 (a) b (c) S ' + ' '.join(str(number) for number in range(4, 53))
        self.assertEqual(idle.process_times(stat), ('a) b (c', 14 + 15))

    def test_ninety_percent_are_quiet(self):
        self.assertTrue(idle.Look(90.0, []).is_quiet)
        self.assertFalse(idle.Look(89.9, []).is_quiet)

    def test_a_busy_machine_says_what_is_at_work(self):
        self.assertIn('cc1plus (99 %)', str(idle.Look(50.0, [(99.2, 'cc1plus')])))
        self.assertIn('the kernel', str(idle.Look(50.0, [])))

    def test_this_machine_can_be_looked_at(self):
        self.assertTrue(0 <= idle.look(0.02).idle_percent <= 100)
        with idle.Meter() as meter:
            pass
        self.assertGreaterEqual(meter.seconds, 0)


SOCKPERF = '''sockperf: Summary: Latency is 8.604 usec
sockperf: ---> percentile 99.000 =  268.820
sockperf: ---> percentile 50.000 =    3.061
'''
REDIS = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms"
"GET","66666.67","0.012","0.008","0.015","0.023"
'''
WRK = '''  2 threads and 16 connections
  Socket errors: connect 0, read 2, write 0, timeout 1
Requests/sec:  18034.50
Transfer/sec:     22.01MB
'''
NETPIPE = '''Now starting the main loop
  0:   65536 bytes    500 times -->  21008.40 Mbps in      23.80 usec
'''
IPERF3 = 'a word before {"end": {"sum_received": {"bits_per_second": 1.18e10}}}\nand one behind'


class Outputs(unittest.TestCase):
    """What programs print."""

    def test_figures_are_found(self):
        for parse, text, value in ((outputs.sockperf, SOCKPERF, 3.061), (outputs.redis, REDIS, 66.66667),
                                   (outputs.wrk, WRK, 18.0345), (outputs.netpipe, NETPIPE, 23.8),
                                   (outputs.iperf3, IPERF3, 11.8),
                                   (outputs.memaslap, 'Run time: 2.0s Ops: 40418 TPS: 20209 Net_rate: 22.1M/s', 20.209),
                                   (outputs.pgbench, 'tps = 8912.3 (without initial connection time)', 8.9123),
                                   (outputs.milliseconds, 'ms 51.000\n', 51.0),
                                   (outputs.stream, '{"size":32768,"mbit_s":887.5}', 887.5)):
            with self.subTest(parse=parse.__name__):
                self.assertAlmostEqual(parse(text)['value'], value)

    def test_a_text_without_a_figure_is_refused(self):
        for parse in (outputs.sockperf, outputs.redis, outputs.wrk, outputs.netpipe, outputs.iperf3, outputs.memaslap,
                      outputs.pgbench, outputs.milliseconds, outputs.stream):
            for text in ('', 'connection refused', '{"error": "unable to connect"}'):
                with self.subTest(parse=parse.__name__, text=text), self.assertRaises(ValueError):
                    parse(text)

    def test_the_99th_percentile_comes_along(self):
        self.assertEqual(outputs.sockperf(SOCKPERF)['p99'], 268.82)

    def test_errors_of_wrk_are_counted(self):
        self.assertEqual(outputs.wrk(WRK)['errors'], 3)
        self.assertEqual(outputs.wrk('Non-2xx or 3xx responses: 7\nRequests/sec: 1.0')['bad_answers'], 7)

    def test_a_file_that_is_cut_off_is_no_figure(self):
        self.assertEqual(outputs.curl('0.061 104857600\n', 104857600)['value'], 0.061)
        with self.assertRaises(ValueError):
            outputs.curl('0.061 104857599\n', 104857600)


class Rows(unittest.TestCase):
    """Which rows there are."""

    def test_no_two_have_the_same_key(self):
        self.assertEqual(len({row.key for row in rows.ROWS}), len(rows.ROWS))

    def test_more_is_better_of_rates_alone(self):
        self.assertEqual({row.better for row in rows.ROWS if '/s' in row.unit}, {'more'})
        self.assertEqual({row.better for row in rows.ROWS if '/s' not in row.unit}, {'less'})

    def test_a_row_is_chosen_by_its_key_or_at_each_of_the_places(self):
        places = ['two-hosts', 'one-host', 'switch']
        self.assertEqual([row.key for row in rows.chosen(['switch/redis-1'], places)], ['switch/redis-1'])
        self.assertEqual(len(rows.chosen(['redis-1'], places)), 3)
        self.assertEqual(len(rows.chosen(['redis-1'], ['one-host'])), 1)
        self.assertEqual(len(rows.chosen([], places)), len(rows.ROWS))
        with self.assertRaises(KeyError):
            rows.chosen(['redis'], places)

    def test_the_short_table_names_rows_that_exist(self):
        self.assertLessEqual(set(tables.SHORT), {row.key for row in rows.ROWS})


class Results(unittest.TestCase):
    """The file."""

    def test_a_row_has_medians_samples_and_ratios(self):
        row = row_of(tcp=[20.0, 22.0, 24.0], granted=[66.0], hosted=[11.0])
        self.assertEqual(row['ways']['tcp']['samples'], [20.0, 22.0, 24.0])
        self.assertEqual(row['ways']['granted']['ratio'], 3.0)
        self.assertEqual(row['ways']['hosted']['ratio'], 0.5)
        self.assertEqual(row['ways']['tcp']['processor_s'], 1.5)
        self.assertEqual(row['idle_percent'], [97.0, 96.0])
        self.assertNotIn('failed', row['ways']['tcp'])

    def test_what_failed_is_told(self):
        row = next(each for each in rows.ROWS if each.key == 'two-hosts/redis-1')
        samples = {'tcp': [sample(2.0)], 'granted': [{'failed': 'why'}], 'hosted': [{'failed': 'why'}, sample(1.0)]}
        ways = results.row_result(row, samples, (97.0, 96.0))['ways']
        self.assertEqual((ways['granted']['median'], ways['granted']['ratio'], ways['granted']['failed']),
                         (None, None, ['why']))
        self.assertEqual((ways['hosted']['median'], ways['hosted']['failed']), (1.0, ['why']))

    def test_rows_that_are_not_measured_stay(self):
        old = {'rows': [{'row': 'a', 'n': 1}, {'row': 'b', 'n': 1}]}
        self.assertEqual(results.merged(old, [{'row': 'c', 'n': 2}, {'row': 'a', 'n': 2}], ['a', 'b', 'c']),
                         [{'row': 'a', 'n': 2}, {'row': 'b', 'n': 1}, {'row': 'c', 'n': 2}])
        self.assertEqual(results.merged(None, [], ['a']), [])

    def test_what_is_written_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'new', 'file.json')
            results.write(path, {'rows': [{'samples': [1.23456789, 2.0], 'text': 'ä'}]})
            self.assertEqual(results.read(path), {'rows': [{'samples': [1.23457, 2.0], 'text': 'ä'}]})
            with open(path, encoding='utf-8') as file:
                self.assertIn('[ 1.23457, 2.0 ]', file.read())
            self.assertIsNone(results.read(path + '.none'))


class Against(unittest.TestCase):
    """Whether a row got worse."""

    @staticmethod
    def lines(before, after, key='two-hosts/redis-1', tcp=(10.0, 10.0)):
        """What is said of granted samples, and kernel TCP's figures."""
        return against.worse_rows({'rows': [row_of(key, tcp=[tcp[0]], granted=before)]},
                                  {'rows': [row_of(key, tcp=[tcp[1]], granted=after)]})

    def test_a_lower_rate_beyond_the_spread_is_worse(self):
        self.assertEqual(len(self.lines([29.0, 30.0, 31.0], [25.0, 26.0, 27.0])), 1)

    def test_a_lower_rate_within_the_spread_is_not(self):
        self.assertEqual(self.lines([25.0, 30.0, 31.0], [25.0, 26.0, 27.0]), [])
        self.assertEqual(self.lines([29.0, 30.0, 31.0], [25.0, 26.0, 30.5]), [])

    def test_a_higher_rate_is_not_worse(self):
        self.assertEqual(self.lines([29.0, 30.0, 31.0], [40.0, 41.0, 42.0]), [])

    def test_of_times_more_is_worse(self):
        self.assertEqual(len(self.lines([2.9, 3.0, 3.1], [4.0, 4.1, 4.2], 'two-hosts/curl')), 1)
        self.assertEqual(self.lines([2.9, 3.0, 3.1], [2.0, 2.1, 2.2], 'two-hosts/curl'), [])

    def test_a_machine_that_is_slower_with_tcp_too_is_not_worse(self):
        self.assertEqual(self.lines([29.0, 30.0, 31.0], [14.0, 15.0, 16.0], tcp=(10.0, 5.0)), [])

    def test_tcp_that_is_faster_makes_nothing_worse(self):
        self.assertEqual(self.lines([29.0, 30.0, 31.0], [29.0, 30.0, 31.0], tcp=(10.0, 100.0)), [])

    def test_a_figure_that_is_gone_is_worse_and_a_new_one_is_not(self):
        row = row_of(tcp=[10.0], granted=[20.0])
        gone = results.not_run(next(each for each in rows.ROWS if each.key == row['row']), 'there is no redis-server')
        self.assertIn('there is no redis-server', against.worse_rows({'rows': [row]}, {'rows': [gone]})[0])
        self.assertEqual(against.worse_rows({'rows': [gone]}, {'rows': [row]}), [])
        self.assertEqual(against.worse_rows({'rows': []}, {'rows': [row]}), [])
        self.assertEqual(against.worse_rows({'rows': [row]}, {'rows': []}), [])


class Tables(unittest.TestCase):
    """Markdown."""

    def setUp(self):
        self.measured = {'kernel': '6.1', 'processors': 2, 'runs': 3,
                         'rows': [row_of(tcp=[20.0], granted=[60.0], hosted=[10.0]),
                                  results.not_run(rows.ROWS[1], 'there is no sockperf'),
                                  row_of('switch/iperf3', tcp=[0.89], granted=[0.88], hosted=[0.887])]}

    def test_figures_have_three_digits(self):
        self.assertEqual([figures_text for figures_text in map(tables.figure, (1234.5, 123.4, 12.34, 1.234, 0.1234))],
                         ['1,234', '123', '12.3', '1.23', '0.123'])

    def test_what_is_worse_than_tcp_is_bold(self):
        text = tables.program_tables(self.measured)['programs/two-hosts']
        self.assertIn('| redis, 1 client, GET | 20.0 k/s (20.0 to 20.0) | 60.0 k/s (60.0 to 60.0) | 3.00 | '
                      '10.0 k/s (10.0 to 10.0) | **0.50** |', text)
        row = row_of('two-hosts/curl', tcp=[1.0], granted=[0.5], hosted=[2.0])
        self.assertEqual([tables.ratio_cell(row, way) for way in ('granted', 'hosted')], ['0.50', '**2.00**'])

    def test_a_row_that_could_not_be_run_says_why(self):
        self.assertIn('not measured: there is no sockperf', tables.program_tables(self.measured)['programs/two-hosts'])

    def test_samples_that_failed_are_told(self):
        self.measured['rows'][0]['ways']['hosted']['failed'] = ['why', 'why']
        self.assertIn('10.0 k/s (10.0 to 10.0), 2 failed |', tables.program_tables(self.measured)['programs/two-hosts'])

    def test_all_rows_of_a_table_have_as_many_cells(self):
        for name, text in tables.program_tables(self.measured).items():
            counts = {line.count('|') for line in text.splitlines() if line.startswith('|')}
            self.assertLessEqual(len(counts), 1, name)

    def test_the_switch_has_processor_time(self):
        self.assertIn('| 0.880 Gb/s (0.880 to 0.880) | 1.50 s |', tables.program_tables(self.measured)['programs/switch'])

    def test_what_was_not_measured_says_so(self):
        for made in (tables.program_tables(None), tables.program_tables({'rows': []})):
            self.assertEqual(set(made.values()), {tables.NOT_MEASURED})

    def test_the_caption_says_which_commits_and_how_idle(self):
        caption = tables.caption(self.measured, self.measured['rows'])
        self.assertIn('idle to 96 %', caption)
        self.assertIn('medians of 3 runs', caption)

    def test_a_document_is_filled_between_its_marks(self):
        text = 'before\n<!-- table: one -->\nold\n<!-- end of the table -->\nbehind\n'
        once = tables.filled(text, {'one': 'new\n'})
        self.assertEqual(once, 'before\n<!-- table: one -->\nnew\n<!-- end of the table -->\nbehind\n')
        self.assertEqual(tables.filled(once, {'one': 'new\n'}), once)
        with self.assertRaises(KeyError):
            tables.filled(text, {})

    def test_a_typed_figure_is_seen_outside_of_tables_alone(self):
        text = 'before\n<!-- table: one -->\n4 us\n<!-- end of the table -->\nIt takes 5 us.\nusual 5 users\n'
        self.assertEqual(tables.typed_lines(text), [(5, 'It takes 5 us.')])

    def test_an_old_table_is_seen_and_mended(self):
        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, 'doc'))
            results.write(os.path.join(root, 'doc', 'results', 'programs.json'), self.measured)
            for name in ('README.md', os.path.join('doc', 'one.md')):
                with open(os.path.join(root, name), 'w', encoding='utf-8') as file:
                    file.write('<!-- table: programs/short -->\n<!-- end of the table -->\n')
            self.assertEqual(tables.outdated(root), ['README.md', 'doc/one.md'])
            self.assertEqual(tables.update(root), ['README.md', 'doc/one.md'])
            self.assertEqual(tables.outdated(root), [])
            with open(os.path.join(root, 'README.md'), encoding='utf-8') as file:
                self.assertIn('| redis, 1 client, GET | 3.0 times faster | **2.0 times slower** |', file.read())


class BenchesTest(unittest.TestCase):
    """The results of the benches in bash, and their tables."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def left(self, name, *values):
        """What a bench has left: one value a line."""
        with open(os.path.join(self.folder, name), 'w', encoding='utf-8') as file:
            file.writelines(f'{each}\n' for each in values)

    def test_samples_of_sovia_become_ratios(self):
        self.left('granted.4-poll.sovia', 3, 1, 2)
        self.left('granted.4-poll.sovia.counts', '0.010', '0.020')
        self.left('granted.4-poll.via', 4, 4, 5)
        measured = benches.sovia_results(self.folder, 3)
        way = measured['rows'][0]['ways']['sovia']
        self.assertEqual((way['median'], way['min'], way['max'], way['kernel_percent_most']), (2, 1, 3, 0.02))
        self.assertIn('| 4 B one way, polling | 2.00 us (1.00 to 3.00) | VIPL | 4.00 us (4.00 to 5.00) | 0.50 |',
                      benches.sovia_tables(measured)['sovia/granted'])

    def test_samples_of_loss_become_shares(self):
        self.left('hosted-0', 1000)
        self.left('hosted-10', 250)
        text = benches.loss_tables(benches.loss_results(self.folder, 1))['loss/all']
        self.assertIn('| VIA, hosted | 1,000 Mb/s (1,000 to 1,000) | - | 0.25 |', text)

    def test_lines_of_mpi_become_two_tables(self):
        self.left('rows', 'vipl 4 1.5 0', 'viaduct 4 3 21', 'host/shm 4 0.2 9', 'host/viaduct 4 2 8')
        made = benches.mpi_tables(benches.mpi_results(os.path.join(self.folder, 'rows'), 1))
        self.assertIn('| 4 B | 1.50 (1.50 to 1.50) | 3.00 (3.00 to 3.00) | - | - | - |', made['mpi/one-way'])
        self.assertIn('| 4 B | 21 (21.0 to 21.0) | - | - | - |', made['mpi/bandwidth'])
        self.assertIn('| 4 B | 0.200 (0.200 to 0.200) | 2.00 (2.00 to 2.00) | - | - | - |', made['mpi/host-one-way'])

    def test_figures_of_papers_that_are_not_measured_again_stay(self):
        table = {'title': 'T', 'unit': 'us', 'reference': None, 'of': 'B', 'points': [4], 'lines': []}
        older = {'date': '2026-01-02T00:00:00Z', 'commit': 'abc', 'dirty': False,
                 'rows': [{'row': 'one', **table}, {'row': 'two', **table}]}
        made = benches.papers.with_older({'date': '2026-02-03T00:00:00Z', 'commit': 'def', 'rows': [{'row': 'two', **table}]},
                                         older)
        self.assertEqual([row['row'] for row in made['rows']], ['one', 'two'])
        self.assertEqual([row.get('commit') for row in made['rows']], ['abc', None])
        shown = benches.papers.tables(made)
        self.assertTrue(shown['papers/one'].startswith('Measured on 2026-01-02 at commit abc.\n\n'))
        self.assertNotIn('Measured', shown['papers/two'])

    def test_figures_of_papers_have_a_column_for_each_network(self):
        def measured(*medians):
            values = [{'median': each, 'q1': each - 1, 'q3': each + 1} for each in medians]
            return json.dumps({'rounds': 3, 'papers': [{
                'name': 'one', 'title': 'One', 'unit': 'us', 'reference': 'TCP', 'of': 'B', 'points': [4],
                'rows': [{'name': 'TCP', 'left': 50, 'right': 0, 'values': values[:1]},
                         {'name': 'SINGLE', 'left': 10, 'right': 0, 'values': values[1:]}]}]})
        self.left('pair.json', measured(20, 10))
        self.left('switch.json', measured(40, 30))
        made = benches.papers_tables(benches.papers_results([os.path.join(self.folder, each)
                                                             for each in ('pair.json', 'switch.json')]))
        self.assertIn('| SINGLE | 0.500 (0.450 to 0.550) | 0.750 (0.725 to 0.775) | 0.20 |', made['papers/one'])

    def test_a_figure_that_is_not_known_is_absent(self):
        measured = {'date': '2026-11-25', 'rows': [{'row': 'one-way/4', 'bytes': 4, 'ways': {'tcp': {'median': 2.5}}}]}
        text = benches.mpi_tables(measured)['mpi/one-way']
        self.assertTrue(text.startswith('Measured on 2026-11-25.\n'))
        self.assertIn('| 4 B | - | - | - | 2.50 | - |', text)

    def test_a_bench_says_how_idle_the_machine_was(self):
        os.environ['VIADUCT_IDLE_BEFORE'] = '97.5'
        try:
            measured = benches.loss_results(self.folder, 1)
        finally:
            del os.environ['VIADUCT_IDLE_BEFORE']
        self.assertEqual(measured['idle_percent'][0], 97.5)
        self.assertRegex(benches.caption(measured), r'idle to \d+ % at least')


class Viabench(unittest.TestCase):
    """Its results, and their tables."""

    @staticmethod
    def case(transport, median, offload='-', **more):
        """A case of 4 bytes."""
        name = f'latency/{transport}/poll/' + (f'{offload}/4' if offload != '-' else 'rd/4')
        return {'id': name, 'what': 'latency', 'transport': transport, 'wait': 'poll', 'others': 0, 'count': 9,
                'reliability': '-' if offload != '-' else 'rd', 'offload': offload, 'size': 4, 'figure': 'us', 'failures': [],
                'figures': {'us': {'median': median, 'q1': median, 'q3': median, 'min': 1, 'max': 9, 'rounds': [median]},
                            'mean_us': {'median': 1, 'rounds': [1]}}, **more}

    @staticmethod
    def run_of(*cases):
        """A run of one round."""
        return {'mtu': 1500, 'rounds': 1, 'hosts': 'here', 'notes': [], 'results': list(cases),
                'bars': [{'bar': viabench.SHORT[0][2], 'at_most': 0.65, 'is': 1.2, 'result': 'missed'},
                         {'bar': viabench.SHORT[0][3], 'at_most': 1.25, 'is': None, 'result': 'not measured'}]}

    def test_a_figure_that_no_table_shows_is_not_kept(self):
        self.assertEqual(list(viabench.kept(self.run_of(self.case('tcp', 2.0, 'on')))['results'][0]['figures']), ['us'])

    def test_a_file_of_results_can_be_read(self):
        measured = {'what': 'a', 'idle_percent': None, 'runs': [self.run_of(self.case('tcp', 2.0, 'on')), self.run_of()]}
        self.assertEqual(json.loads(viabench.text_of(measured)), measured)

    def test_a_case_stands_beside_tcp_that_waits_in_the_same_way(self):
        cases = [self.case('granted', 1.0, what='rate'), self.case('tcp', 4.0, 'on', what='rate', id='rate/tcp/poll/on/4')]
        self.assertIn('| VIA granted, polling, rd | 4 | 1.00 | 1.00..1.00 | 0.25 |',
                      viabench.by_row(viabench.Run(self.run_of(*cases)), 'rate', 'us', 'bytes'))

    def test_bars_that_were_not_measured_are_left_out(self):
        made = benches.viabench_tables({'date': '2026-11-25', 'committed_in': 'abc', 'commit': None,
                                        'runs': [self.run_of(self.case('tcp', 2.0, 'on'))]})
        self.assertTrue(made['viabench/all'].startswith('Measured on 2026-11-25, figures of commit abc.\n\n### MTU 1500\n'))
        self.assertIn('| at most 0.65 | 1.20 | missed |', made['viabench/all'])
        self.assertNotIn('not measured', made['viabench/all'])
        self.assertIn('| VIA: 4 bytes, one way, polling | kernel TCP, spinning | 1.20 |  |', made['viabench/short'])


PROXY_LOG = '''Sat Nov 28 00:50:26.000100 2026 AH03461: attempting to match URI path '/f' against prefix '/' for proxying
Sat Nov 28 00:50:26.000120 2026 AH00944: connecting http://10.77.0.3:8000/f to 10.77.0.3:8000
Sat Nov 28 00:50:26.000220 2026 AH00962: http: connection complete to 10.77.0.3:8000 (10.77.0.3)
Sat Nov 28 00:50:26.000520 2026 Status from backend: 200
Sat Nov 28 00:50:26.000560 2026 end body send
Sat Nov 28 00:50:27.000000 2026 AH03461: attempting to match URI path '/f' against prefix '/' for proxying
Sat Nov 28 00:50:27.000040 2026 AH00944: connecting http://10.77.0.3:8000/f to 10.77.0.3:8000
Sat Nov 28 00:50:27.000040 2026 http: reusing backend connection 10.77.0.2:49788<>10.77.0.3:8000
Sat Nov 28 00:50:27.000240 2026 Status from backend: 200
Sat Nov 28 00:50:27.000260 2026 end body send
'''


class Applications(unittest.TestCase):
    """Figures of the papers' applications."""

    FIGURE = application.Figure('one', 'One', 'us', 'TCP', 'KB', (1, 64), (
        application.Line('TCP', (2.0, None)), application.Line('SOVIA', (1.0, None))))

    def row(self, **failed):
        """A row of two samples of each way."""
        samples = [{'TCP': {1: 10.0, 64: 40.0}}, {'TCP': {1: 20.0, 64: 60.0}}, {'SOVIA': {1: 6.0, 64: 50.0}}, {}]
        return applications.row_result(self.FIGURE, samples, failed, (99.0, 98.0))

    def test_a_point_has_the_median_and_the_quartiles_of_its_samples(self):
        self.assertEqual(applications.spread([1.0, 2.0, 3.0, 4.0, 5.0]), {'median': 3.0, 'q1': 2.0, 'q3': 4.0})
        self.assertEqual(applications.spread([1.0]), {'median': 1.0, 'q1': 1.0, 'q3': 1.0})
        self.assertIsNone(applications.spread([]))

    def test_the_table_of_an_application_has_all_points_and_the_paper_where_it_tells_something(self):
        table = applications.tables({'rows': [self.row()]})['applications/one']
        self.assertIn('| TCP = 1 | 1 KB, switch of 1 Gb/s | paper | 64 KB, switch of 1 Gb/s |\n', table)
        self.assertIn('| SOVIA | 0.400 | 0.50 | 1.00 |\n', table)

    def test_the_table_of_an_application_tells_of_samples_that_failed(self):
        table = applications.tables({'rows': [self.row(SOVIA=['it hangs'])]})['applications/one']
        self.assertIn('; 1 of SOVIA failed.', table)

    def test_an_application_that_was_not_measured_says_why(self):
        rows = [applications.not_run(self.FIGURE, 'there is no apache2')]
        self.assertIn('there is no apache2', applications.tables({'rows': rows})['applications/one'])
        self.assertIn('bench-applications', tables.filled('<!-- table: applications/one -->\n<!-- end of the table -->', {}))

    def test_each_way_is_the_first_one_of_a_round_in_its_turn(self):
        ways = (application.TCP, application.SOVIA)
        self.assertEqual([application.turns(ways, number)[0].key for number in range(3)], ['tcp', 'granted', 'tcp'])

    def test_a_trace_is_the_same_each_time_and_has_the_average_size_that_it_is_made_for(self):
        sizes, asked = web_trace.make(65536, 200)
        self.assertEqual((sizes, asked), web_trace.make(65536, 200))
        self.assertAlmostEqual(sum(sizes[each] for each in asked) / 200, 65536, delta=1)
        self.assertGreater(asked.count(0), asked.count(web_trace.FILES - 1))

    def test_what_curl_got_must_be_what_was_asked_for(self):
        self.assertEqual(datacentre.curl_times('200 10 0.5\n200 20 0.25\n', [10, 20]), [500000, 250000])
        for text in ('200 10 0.5\n', '200 10 0.5\n404 20 0.25\n', '200 10 0.5\n200 19 0.25\n'):
            with self.assertRaises(Failure):
                datacentre.curl_times(text, [10, 20])

    def test_clients_together_have_the_bandwidth_from_the_first_begin_to_the_last_end(self):
        texts = ['copied 8 bytes\n1795828114000000000 1795828115000000000\n', '1795828114500000000 1795828116000000000\n']
        self.assertEqual(filesystem.bandwidth(texts, 10000000), 10.0)
        with self.assertRaises(Failure):
            filesystem.bandwidth([texts[0], 'copied 8 bytes\n'], 10000000)

    def test_a_call_takes_what_the_client_prints_last(self):
        self.assertEqual(rpc.microseconds('13.250\n'), 13.25)
        for text in ('', 'rpc_calls: RPC: Timed out\n'):
            with self.assertRaises(Failure):
                rpc.microseconds(text)

    def test_a_log_of_requests_tells_of_the_database_too(self):
        self.assertEqual(apache.access_times('120 200 -\n300 200 80\n'), [(120.0, 0.0), (300.0, 80.0)])
        with self.assertRaises(Failure):
            apache.access_times('120 502 -\n')

    def test_a_kept_connection_is_a_short_part_of_the_time_of_a_proxy(self):
        parts = apache.proxy_parts(PROXY_LOG)
        self.assertEqual({name: round(value) for name, value in parts.items()},
                         {'preparing': 30, 'connecting': 50, 'awaiting': 250, 'answering': 30})
        with self.assertRaises(Failure):
            apache.proxy_parts('')


class Lines(unittest.TextTestResult):
    """A line for each test, as the other tests of this tree have."""

    def addSuccess(self, test):
        super().addSuccess(test)
        print('ok: ' + self.name(test))

    def addError(self, test, err):
        super().addError(test, err)
        print('not ok: ' + self.name(test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        print('not ok: ' + self.name(test))

    @staticmethod
    def name(test):
        """In words."""
        return test.id().rsplit('.', 1)[-1].removeprefix('test_').replace('_', ' ')


class Costs(unittest.TestCase):
    """What a request costs."""

    row = cost.ROWS[0]

    @staticmethod
    def sample(value, processor_us):
        """Of one run; the kernel could not count system calls."""
        return {'value': value, 'processor_us': processor_us, 'system_calls': None, 'frames': 2.0}

    def result(self):
        """Of kernel TCP, of lanes at half of its cost, and of a way that failed once."""
        return cost.row_result(self.row, {'tcp': [self.sample(10, 20.0)] * 3, 'lanes': [self.sample(20, 10.0)] * 3,
                                          'default': [{'failed': 'no lab'}, self.sample(5, 40.0)]}, 99.0, 98.0)

    def test_ratios_are_to_tcps_medians(self):
        """Of rate and of processor time."""
        ways = self.result()['ways']
        self.assertEqual((ways['tcp']['value_ratio'], ways['tcp']['processor_us_ratio']), (1, 1))
        self.assertEqual((ways['lanes']['value_ratio'], ways['lanes']['processor_us_ratio']), (2, 0.5))
        self.assertEqual(ways['default']['value_ratio'], 0.5)
        self.assertEqual(ways['default']['failed'], ['no lab'])

    def test_a_table_has_a_line_for_each_way(self):
        """What could not be counted is a dash."""
        text = cost.tables({'rows': [self.result()], 'runs': 3})['cost/all']
        lines = [line for line in text.splitlines() if line.startswith(f'| {self.row.title}')]
        self.assertEqual(len(lines), len(cost.COST_WAYS))
        self.assertIn('| lanes | 20.0 k/s | 10.0 | - | 2.00 | 2.00 | 0.50 |', lines[1])

    def test_requests_of_exchanges_are_round_trips(self):
        """From the time one way."""
        by_key = {row.key: row for row in cost.ROWS}
        self.assertEqual(by_key['sockperf-1'].requests(5.0), 200_000)
        self.assertEqual(by_key['nginx-16'].requests(50.0), 100_000)

if __name__ == '__main__':
    unittest.main(testRunner=unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=Lines))
