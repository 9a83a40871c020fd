"""A data centre in tiers: a client (host a), a proxy (b), a web server (c), a database (d). Balaji's figures 31 to 34 and
dynamic pages; both Apaches are Debian's 2.4 where the paper's proxy is 1.3.12, the client is curl, which asks for one file
after the other and keeps its connection, and the database is PostgreSQL, where the paper has MySQL.

The time of a tier is that of its log (%D) without that of the tier behind it, so that of the client is curl's without
the proxy's. A web server that ends its entry after the proxy has gone on counts that against the proxy."""

import os
from contextlib import ExitStack, contextmanager
from statistics import mean

import web_trace
from apache import MODULES, PHP, Apache, access_times, proxy_parts
from application import Application, Figure, Line, address, by_way
from lab import Failure
from servers import POSTGRES, Pgbench, await_database

SIZES_KB = (1, 4, 16, 64, 256, 1024)
BROKEN_UP_KB = (64, 128)
SMALL_KB = (1, 4, 16, 64)
TIERS = ('client', 'proxy', 'web server')
PROXY_PARTS = ('preparing', 'connecting', 'awaiting', 'answering')
WHOLE = (Line('TCP'), Line('SOVIA'))
ROWS = (1, 100)
DYNAMIC_TIERS = (*TIERS, 'database')
ITEMS = '''DROP TABLE IF EXISTS item;
CREATE TABLE item AS SELECT n AS id, n % 100 AS subject, md5(n::text) AS title, (n % 9000) / 100.0 AS cost
  FROM generate_series(1, 10000) AS n;
CREATE INDEX ON item (subject);
ANALYZE item;
'''
# A page with items of one subject. The log of the web server has the microseconds of the database.
PAGE = '''<?php
$begin = hrtime(true);
$database = pg_pconnect("host={host} port={port} user=postgres dbname=postgres sslmode=disable gssencmode=disable");
$items = pg_query_params($database, "SELECT title, cost FROM item WHERE subject = $1 LIMIT $2",
  [$_GET["subject"], $_GET["rows"]]);
$all = pg_fetch_all($items);
apache_note("database", (string)intdiv(hrtime(true) - $begin, 1000));
header("Content-Length: " . 80 * count($all));
foreach ($all as $item) echo str_pad("<p>" . $item["title"] . " " . $item["cost"] . "</p>", 79) . "\\n";
'''
WARM_UP = 10    # requests that come before those that are measured


def _response(name, title, sizes=SIZES_KB):
    return Figure(name, title, 'us', 'TCP', 'KB', sizes, WHOLE)


def _breakup(name, title, parts, points):
    return Figure(name, title, 'us', 'TCP', 'KB', points, (Line('TCP'), *by_way(parts)[:len(parts)], Line('SOVIA'),
                                                           *by_way(parts)[len(parts):]))


class Requests:
    """Files of a web server with one average size, and requests for them by curl."""

    def __init__(self, folder, average, count):
        self.name = str(average)
        self.sizes, self.asked = web_trace.make(average, count)
        os.makedirs(os.path.join(folder, 'files', self.name), exist_ok=True)
        for number, size in enumerate(self.sizes):
            with open(os.path.join(folder, 'files', self.name, str(number)), 'wb') as file:
                file.write(os.urandom(size))

    def paths(self):
        """What is asked for, and how many bytes each answer has."""
        asked = self.asked[:WARM_UP] + self.asked
        return [(f'{self.name}/{number}', self.sizes[number]) for number in asked]


def curl_times(text, sizes):
    """Microseconds of each answer, from curl's lines "status bytes seconds"."""
    lines = [each.split() for each in text.split('\n') if each.strip()]
    if [(line[0], int(line[1])) for line in lines] != [('200', size) for size in sizes]:
        raise Failure(f'curl got other answers: {text.strip()[-200:]}')
    return [float(line[2]) * 1e6 for line in lines]


def fetch(turn, port, paths, sovia):
    """Microseconds of each answer. `paths` have the sizes of the answers with them; without one, any will do."""
    config = os.path.join(turn.work, 'curl')
    with open(config, 'w', encoding='ascii') as file:
        file.write('silent\nshow-error\nwrite-out = "%{http_code} %{size_download} %{time_total}\\n"\n')
        for path, _ in paths:
            file.write(f'url = "http://{address("b")}:{port}/{path}"\noutput = "/dev/null"\n')
    text = turn.lab.run('a', *(turn.way.launcher() if sovia else []), 'curl', '--config', config)
    return curl_times(text, [size for _, size in paths])


class StaticPages(Application):
    """Files, through a proxy."""

    name = 'datacentre'
    hosts = 4
    needs = ('apache2', 'curl')
    figures = (
        _response('balaji-figure-31a', 'Balaji figure 31a: response time of a data centre, client on TCP, by average size'),
        _breakup('balaji-figure-31b', 'Balaji figure 31b: its break-up, client on TCP', TIERS, BROKEN_UP_KB),
        _response('balaji-figure-32a', 'Balaji figure 32a: response time of a data centre, client on SOVIA, by average size'),
        _breakup('balaji-figure-32b', 'Balaji figure 32b: its break-up, client on SOVIA', TIERS, BROKEN_UP_KB),
        _breakup('balaji-figure-33', "Balaji figure 33: break-up of the proxy's time", PROXY_PARTS, SMALL_KB),
        _response('balaji-figure-34', 'Balaji figure 34: response time with kept connections to the web server',
                  SIZES_KB))

    def sample(self, turn):
        made = {figure.name: {} for figure in self.figures}
        count = 20 if turn.quick else 100
        with ExitStack() as stack:
            web = stack.enter_context(Apache(turn, 'c', 'web', turn.port).serve_files())
            proxy = stack.enter_context(
                Apache(turn, 'b', 'proxy', turn.port + 1).pass_on(f'{address("c")}:{turn.port}'))
            for size in sorted({*SIZES_KB, *BROKEN_UP_KB}):
                requests = Requests(web.folder, size * 1024, count)
                slow = self._static(turn, proxy, web, requests, False)
                fast = self._static(turn, proxy, web, requests, True) if turn.way.is_sovia else slow
                self._add(made, turn, size, slow, fast)
                if size in SIZES_KB:
                    kept = mean(fetch(turn, proxy.port + 1, requests.paths(), turn.way.is_sovia)[WARM_UP:])
                    made['balaji-figure-34'].setdefault(turn.way.title, {})[size] = kept
        return made

    @staticmethod
    def _static(turn, proxy, web, requests, sovia):
        """Mean microseconds of each part of an answer's time."""
        before = {(server, log): len(server.said(log)) for server in (proxy, web) for log in ('access.log', 'error.log')}
        seen = mean(fetch(turn, proxy.port, requests.paths(), sovia)[WARM_UP:])
        at_proxy, at_web = (mean(took for took, _ in access_times(
            server.said('access.log', before[server, 'access.log']))[WARM_UP:]) for server in (proxy, web))
        return {'whole': seen, 'client': seen - at_proxy, 'proxy': at_proxy - at_web, 'web server': at_web,
                'at proxy': at_proxy, **proxy_parts(proxy.said('error.log', before[proxy, 'error.log']))}

    @staticmethod
    def _add(made, turn, size, slow, fast):
        """Puts the times of one size into the figures. `slow`: those of a client on TCP."""
        title = turn.way.title
        for times, number in ((slow, 31), (fast, 32)):
            if size in SIZES_KB:
                made[f'balaji-figure-{number}a'].setdefault(title, {})[size] = times['whole']
            if size in BROKEN_UP_KB:
                for line, part in ((title, 'whole'), *((f'{title}, {tier}', tier) for tier in TIERS)):
                    made[f'balaji-figure-{number}b'].setdefault(line, {})[size] = times[part]
        if size in SMALL_KB:
            for line, part in ((title, 'at proxy'), *((f'{title}, {each}', each) for each in PROXY_PARTS)):
                made['balaji-figure-33'].setdefault(line, {})[size] = fast[part]


class DynamicPages(Application):
    """Pages that PHP makes of a table of the database, to which each process of the web server keeps a connection."""

    name = 'dynamic-pages'
    hosts = 4
    needs = ('apache2', 'curl', os.path.join(MODULES, PHP), os.path.join(POSTGRES, 'postgres'))
    figures = (Figure('balaji-dynamic', 'Balaji, section 5.3.2: response time of dynamic pages by tier', 'us', 'TCP', 'rows', ROWS,
                      (Line('TCP'), *by_way(DYNAMIC_TIERS)[:4], Line('SOVIA'), *by_way(DYNAMIC_TIERS)[4:])),)

    def sample(self, turn):
        made = {}
        title = turn.way.title
        with ExitStack() as stack:
            stack.enter_context(_database(turn, turn.port + 3))
            web = stack.enter_context(Apache(turn, 'c', 'web', turn.port).serve_pages())
            proxy = stack.enter_context(Apache(turn, 'b', 'proxy', turn.port + 1).pass_on(f'{address("c")}:{turn.port}'))
            with open(os.path.join(web.folder, 'files', 'page.php'), 'w', encoding='ascii') as file:
                file.write(PAGE.format(host=address('d'), port=turn.port + 3))
            for rows in ROWS:
                for part, value in self._pages(turn, proxy, web, rows).items():
                    made.setdefault(f'{title}, {part}' if part else title, {})[rows] = value
        return {'balaji-dynamic': made}

    @staticmethod
    def _pages(turn, proxy, web, rows):
        """Mean microseconds of each tier, and of the whole, whose name is empty."""
        before = {server: len(server.said('access.log')) for server in (proxy, web)}
        count = WARM_UP + (20 if turn.quick else 100)
        paths = [(f'page.php?subject={number % 100}&rows={rows}', 80 * rows) for number in range(count)]
        seen = mean(fetch(turn, proxy.port, paths, turn.way.is_sovia)[WARM_UP:])
        proxied, made = (access_times(server.said('access.log', before[server]))[WARM_UP:] for server in (proxy, web))
        at_proxy, at_web, at_database = mean(each for each, _ in proxied), mean(each for each, _ in made), \
            mean(each for _, each in made)
        return {'': seen, 'client': seen - at_proxy, 'proxy': at_proxy - at_web, 'web server': at_web - at_database,
                'database': at_database}


@contextmanager
def _database(turn, port):
    """PostgreSQL with its table."""
    log = os.path.join(turn.work, 'database.log')
    program = turn.lab.start('d', log, *turn.way.launcher(), *Pgbench(1).server(turn.way, port, turn.work))
    try:
        await_database(turn.lab, 'd', port)
        turn.lab.run('d', os.path.join(POSTGRES, 'psql'), '-q', '-h', '127.0.0.1', '-p', str(port), '-U', 'postgres', '-c', ITEMS,
                     'postgres')
        yield
    finally:
        turn.lab.stop(program)


APPLICATIONS = (StaticPages(), DynamicPages())
