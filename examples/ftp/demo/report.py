"""The tables that ftpdemo prints."""

# Table 5 of the SOVIA paper (ICS 2001): title, then Mb/s and seconds for its two files. Its client counts.
PAPER = (
    ('TCP/IP on Fast Ethernet', (88, 1.18), (88, 5.58)),
    ('TCP/IP on cLAN', (288, 0.38), (256, 2.00)),
    ('SOVIA on cLAN', (736, 0.15), (552, 0.93)),
)
WIDTH = 25


def cell(size, seconds):
    """Rate and time of one transfer."""
    if seconds is None:
        return '-'.rjust(WIDTH)
    return f'{size * 8e-6 / seconds:.0f} Mb/s ({seconds:.3f} s)'.rjust(WIDTH)


def ratio(one, other):
    """One time in another's."""
    return '-'.rjust(WIDTH) if not one or not other else f'{one / other:.2f}'.rjust(WIDTH)


def kernel_cell(part):
    """How much of the transfers went through the kernel."""
    return ('-' if part is None else f'{part:.1%}').rjust(WIDTH)


def table(figures, mtus, sizes, all_variants, rounds):
    """All tables, as lines."""
    lines = ['the paper (its table 5)'.ljust(36) + ''.join(f'{size:,} bytes'.rjust(WIDTH) for size in sizes[:2])]
    for title, *cells in PAPER:
        lines.append('  ' + title.ljust(34) + ''.join(
            f'{rate} Mb/s ({seconds:.2f} s)'.rjust(WIDTH) for rate, seconds in cells))
    keys = [variant.key for variant in all_variants]
    for mtu in mtus:
        for direction in ('get', 'put'):
            lines += ['', f'here, MTU {mtu}, {direction}'.ljust(36) +
                      ''.join(f'{size:,} bytes'.rjust(WIDTH) for size in sizes)]
            for variant in all_variants:
                lines.append('  ' + variant.title.ljust(34) + ''.join(
                    cell(size, figures.seconds(mtu, direction, size, variant.key)) for size in sizes))
                if variant.sovia:
                    lines.append('    of it by the kernel'.ljust(36) + ''.join(
                        kernel_cell(figures.seconds(mtu, direction, size, variant.key, clock='kernel')) for size in sizes))
            for key, name in (('sovia', 'unmodified'), ('sovia_linked', 'linked')):
                for tcp, what in (('tcp', 'TCP with offload'), ('tcp_plain', 'TCP without')):
                    if key in keys:
                        lines.append(f'  time of {name} / {what}'.ljust(36) + ''.join(
                            ratio(figures.seconds(mtu, direction, size, key),
                                  figures.seconds(mtu, direction, size, tcp)) for size in sizes))
    lines += ['', f'Medians of {rounds} rounds, the variants in turns; tmpfs to tmpfs; every file verified. Time is from',
              'the command to the next prompt, with the data connection\'s making and the server\'s last word.',
              'A data connection begins over kernel TCP and gets its lane while it transfers: short transfers are',
              'carried by the kernel in part, of which the median is shown.']
    return lines
