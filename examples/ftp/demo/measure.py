"""How long transfers take: SOVIA and kernel TCP on the same link, in turns."""

import os
from statistics import median

from . import files
from .client import Client
from .hosts import Failure, Hosts, launcher
from .pairs import Server


class Variant:
    """One way to carry the files: a pair, on SOVIA or not, with segmentation offload on the link or not."""

    def __init__(self, key, title, pair, sovia, offload):
        self.key = key
        self.title = title
        self.pair = pair
        self.sovia = sovia
        self.offload = offload
        self.server = None
        self.client = None


def variants(known):
    """Those that can be measured with what is there."""
    built, linked = known['built'], known['linked']
    found = [
        Variant('tcp', 'kernel TCP, segmentation offload', built, False, True),
        Variant('tcp_plain', 'kernel TCP without it', built, False, False),
    ]
    if launcher():
        found.append(Variant('sovia', 'SOVIA, unmodified programs', built, True, True))
        if not linked.missing():
            found.append(Variant('sovia_linked', 'SOVIA, linked programs', linked, True, True))
    return found


class Figures:
    """All times that were measured, in seconds, by link, direction, size and variant."""

    def __init__(self):
        self.rows = {}

    def row(self, *place):
        """What was measured there."""
        return self.rows.setdefault(place, {'wall': [], 'client': [], 'kernel': []})

    def add(self, place, wall, said, kernel):
        """One transfer; `kernel` is the part that the kernel carried."""
        row = self.row(*place)
        row['wall'].append(wall)
        row['kernel'].append(kernel)
        if said is not None:
            row['client'].append(said)

    def seconds(self, *place, clock='wall'):
        """The median, or None; with clock='kernel': of the parts that the kernel carried."""
        values = self.rows.get(place, {}).get(clock)
        return median(values) if values else None

    def as_json(self):
        """For programs."""
        return [{'mtu': mtu, 'direction': direction, 'bytes': size, 'variant': key,
                 'seconds': self.seconds(mtu, direction, size, key),
                 'mbit_s': size * 8e-6 / self.seconds(mtu, direction, size, key) if row['wall'] else None,
                 'client_seconds': self.seconds(mtu, direction, size, key, clock='client'),
                 'rounds': row['wall'], 'client_rounds': row['client'],
                 'kernel_parts': row['kernel']}
                for (mtu, direction, size, key), row in sorted(self.rows.items())]


def transfer(hosts, variant, direction, size, work):
    """One transfer in a variant's session. Returns the seconds from the command to the client's next prompt,
    those that the client counts, and the part that the kernel carried."""
    near, far = os.path.join(work, 'near', 'moved'), os.path.join(variant.server.home, 'moved')
    for path in (near, far):
        if os.path.exists(path):
            os.unlink(path)
    before = hosts.tcp_bytes()
    if direction == 'get':
        times = variant.client.transfer(f'get file{size} moved')
    else:
        times = variant.client.transfer(f'put file{size} moved')
    kernel = (hosts.tcp_bytes() - before) / size
    if not files.same(os.path.join(work, 'near', f'file{size}'), near if direction == 'get' else far):
        raise Failure(f'{variant.title}: {direction} of {size} bytes: the file has been damaged on its way')
    return *times, kernel


def measure(known, mtus, sizes, rounds, work, lab):
    """Runs it all; every transfer's content is verified."""
    os.environ.setdefault('SOVIA_ROUTE', 'lane')  # lanes are what is measured, where the kernel moves more too
    figures = Figures()
    for mtu in mtus:
        with Hosts(lab, mtu) as hosts:
            place = os.path.join(work, f'mtu{mtu}')
            os.makedirs(os.path.join(place, 'near'))
            for size in sizes:
                files.make(os.path.join(place, 'near', f'file{size}'), size)
            all_variants = variants(known)
            try:
                for number, variant in enumerate(all_variants):
                    variant.server = Server(hosts, variant.pair, variant.sovia, 2100 + 10 * number,
                                            os.path.join(place, variant.key))
                    for size in sizes:
                        os.link(os.path.join(place, 'near', f'file{size}'),
                                os.path.join(variant.server.home, f'file{size}'))
                    words = variant.pair.client_words(variant.sovia, False, variant.server.port)
                    variant.client = Client(hosts.words('a', *words), seconds=60)
                    variant.client.login(os.path.join(place, 'near'))
                one_mtu(figures, hosts, mtu, all_variants, sizes, rounds, place)
            finally:
                for variant in all_variants:
                    if variant.client:
                        variant.client.__exit__()
    return figures


def one_mtu(figures, hosts, mtu, all_variants, sizes, rounds, place):
    """In each round every variant has its turn, beginning with another one. Round 0 only warms up."""
    for number in range(rounds + 1):
        turn = number % len(all_variants)
        for variant in all_variants[turn:] + all_variants[:turn]:
            hosts.offload(variant.offload)
            for size in sizes if number else sizes[:1]:
                for direction in ('get', 'put'):
                    times = transfer(hosts, variant, direction, size, place)
                    if number:
                        figures.add((mtu, direction, size, variant.key), *times)
