"""The rows of the tables."""

from dataclasses import dataclass, field

from loads import (Beside, Crowded, Curl, Exchanges, Ftp, Iperf3, Load, Memcached, Netpipe, OnOneProcessor, Redis,
                   Sockperf, SockperfMany, StreamEnd, Vipl, ViplBeside, Wrk)
from servers import Pgbench, Proxied, Rsync, Scp

WITHOUT_LOCAL = {'SOVIA_LOCAL': '0'}
UDP = {'SOVIA_UDP': '1'}


@dataclass
class Row:
    """One program at one place."""

    key: str
    title: str
    place: str
    unit: str
    better: str  # more or less
    load: Load
    switches: dict = field(default_factory=dict)  # variables of SOVIA


def _rows(place, *rows):
    return [Row(f'{place}/{key}', title, place, unit, 'more' if '/s' in unit else 'less', load, *switches)
            for key, title, unit, load, *switches in rows]


ROWS = _rows(
    'two-hosts',
    ('sockperf-14', 'sockperf ping-pong, 14 B, one way', 'us', Sockperf(14)),
    ('sockperf-1400', 'sockperf ping-pong, 1400 B, one way', 'us', Sockperf(1400)),
    ('sockperf-50', 'sockperf ping-pong, 14 B, 50 connections in turn, one way', 'us', SockperfMany(14, 50)),
    ('sockperf-core', 'sockperf ping-pong, 14 B, both ends on one processor, one way', 'us', OnOneProcessor(Sockperf(14))),
    ('redis-1', 'redis, 1 client, GET', 'k/s', Redis(1, 40_000)),
    ('redis-busy', 'redis, 1 client, GET, beside two busy loops', 'k/s', Crowded(Redis(1, 30_000))),
    ('redis-50', 'redis, 50 clients, GET', 'k/s', Redis(50, 100_000)),
    ('redis-pipeline', 'redis, 50 clients, GET, pipelines of 16', 'k/s', Redis(50, 1_000_000, pipeline=16)),
    ('nginx-1', 'nginx, 1 KB, wrk with 1 connection', 'k/s', Wrk(1024, 1)),
    ('nginx-16', 'nginx, 1 KB, 16 connections', 'k/s', Wrk(1024, 16)),
    ('nginx-256', 'nginx, 1 KB, 256 connections', 'k/s', Wrk(1024, 256)),
    ('nginx-64k', 'nginx, 64 KB, 16 connections', 'k/s', Wrk(64 << 10, 16)),
    ('nginx-100k', 'nginx, 100 KB, 32 connections', 'k/s', Wrk(100 << 10, 32)),
    ('curl', 'curl, 100 MB from nginx', 's', Curl(100 << 20)),
    ('curl-1g', 'curl, 1 GB from nginx', 's', Curl(1 << 30)),
    ('iperf3', 'iperf3', 'Gb/s', Iperf3(2)),
    ('netpipe', 'NPtcp, 64 KB, one way', 'us', Netpipe(64 << 10)),
    ('exchanges', '300 connections of 20 exchanges', 'ms', Exchanges(300, 20)),
    ('short-1', '1,000 connections of one request, 1 KB back', 'ms', Exchanges(1_000, 1, answer=1024)),
    ('short-8', '500 connections of 8 requests, 1 KB back', 'ms', Exchanges(500, 8, answer=1024)),
    ('forking', 'a server that forks, 100 connections of 20 exchanges', 'ms', Exchanges(100, 20, forks=True)),
    ('pgbench-1', 'PostgreSQL, pgbench with 1 client, SELECT 1', 'k/s', Pgbench(1)),
    ('pgbench-8', 'the same with 8 clients', 'k/s', Pgbench(8)),
    ('haproxy', 'nginx, 1 KB, 16 connections, through haproxy on the other host', 'k/s', Proxied(1024, 16)),
    ('rsync', 'rsync from its daemon, 65 MB', 's', Rsync(1_000 << 16)),
    ('scp', 'scp from sshd, 65 MB', 's', Scp(1_000 << 16)),
    ('memcached', 'memcached, memaslap with 16 threads', 'k/s', Memcached(16)),
    ('ftp-put', 'ftp, put of 13.8 MB', 's', Ftp('put', 13_827_767)),
    ('ftp-get', 'ftp, get of 65 MB', 's', Ftp('get', 65_257_948)),
    ('stream-end', 'close() to the end of file, after 8 MB one way', 'ms', StreamEnd(8 << 20, 5)),
    ('sockperf-udp', 'sockperf ping-pong, UDP, 14 B, one way', 'us', Sockperf(14, udp=True)),
    ('sockperf-udp-lanes', 'the same with SOVIA_UDP=1', 'us', Sockperf(14, udp=True), UDP),
) + _rows(
    'one-host',
    ('redis-1', 'redis, 1 client, GET', 'k/s', Redis(1, 40_000)),
    ('redis-1-kernel', 'the same with SOVIA_LOCAL=0', 'k/s', Redis(1, 40_000), WITHOUT_LOCAL),
    ('redis-50', 'redis, 50 clients, GET', 'k/s', Redis(50, 100_000)),
    ('redis-50-kernel', 'the same with SOVIA_LOCAL=0', 'k/s', Redis(50, 100_000), WITHOUT_LOCAL),
    ('redis-500-kernel', 'redis, 500 clients, GET, with SOVIA_LOCAL=0', 'k/s', Redis(500, 100_000), WITHOUT_LOCAL),
    ('sockperf', 'sockperf ping-pong, TCP, 14 B, one way', 'us', Sockperf(14)),
    ('sockperf-kernel', 'the same with SOVIA_LOCAL=0', 'us', Sockperf(14), WITHOUT_LOCAL),
    ('stream-end', 'close() to the end of file, after 8 MB one way', 'ms', StreamEnd(8 << 20, 5)),
    ('stream-end-kernel', 'the same with SOVIA_LOCAL=0', 'ms', StreamEnd(8 << 20, 5), WITHOUT_LOCAL),
) + _rows(
    'switch',
    ('iperf3', 'iperf3, 4 s', 'Gb/s', Iperf3(4)),
    ('vipl', 'VIPL (viaping; TCP: tcpping), 440 MB in 32 KB messages', 'Mb/s', Vipl(32768, 13_500)),
    ('vipl-beside', 'VIPL, 4 B, one way, beside a stream of 32 KB messages', 'us', ViplBeside(4, 25_000)),
    ('beside', 'sockperf, 14 B 500 times a second, one way, beside iperf3', 'us', Beside(14)),
    ('sockperf-14', 'sockperf ping-pong, 14 B, one way', 'us', Sockperf(14)),
    ('redis-1', 'redis, 1 client, GET', 'k/s', Redis(1, 40_000)),
    ('nginx-16', 'nginx, 1 KB, 16 connections', 'k/s', Wrk(1024, 16)),
    ('nginx-64k', 'nginx, 64 KB, 16 connections', 'k/s', Wrk(64 << 10, 16)),
    ('curl', 'curl, 100 MB from nginx', 's', Curl(100 << 20)),
)


def chosen(only, places):
    """The rows of these places; of them those that `only` names, by key or by its part behind the place."""
    found = [row for row in ROWS if row.place in places]
    for name in only:
        if not any(name in (row.key, row.key.split('/')[1]) for row in found):
            raise KeyError(name)
    return [row for row in found if not only or row.key in only or row.key.split('/')[1] in only]
