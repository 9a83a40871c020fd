"""Rows and figures of tables in Markdown."""


def line(cells):
    """One row of Markdown."""
    return '| ' + ' | '.join(cells) + ' |\n'


def head(*cells, align='left'):
    """The first two rows. With `align` 'right', all columns but the first one are numbers."""
    return line(cells) + line(['---' if align == 'left' or at == 0 else '---:' for at in range(len(cells))])


def figure(value):
    """With three digits, and none cut off in front of the point."""
    if value >= 100:
        return f'{value:,.0f}'
    return f'{value:.{1 if value >= 10 else 2 if value >= 1 else 3}f}'
