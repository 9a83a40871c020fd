"""Traces of requests, as the paper makes them from one of a web server: files whose popularity falls like Zipf's, with sizes
that are scaled to the average of a figure."""

import random

FILES = 24
# Of the sizes' logarithms: most files are small, and some are much larger than the average.
SPREAD = 1.0


def sizes(average, counts):
    """The files' sizes in bytes, of which the average, weighted by the requests for each, is this one."""
    numbers = random.Random(1)
    base = [numbers.lognormvariate(0, SPREAD) for _ in counts]
    of_all = sum(size * count for size, count in zip(base, counts)) / sum(counts)
    return [max(1, round(size * average / of_all)) for size in base]


def requests(count):
    """The numbers of the files that are asked for, one after the other; the same ones each time."""
    numbers = random.Random(2)
    weights = [1 / rank for rank in range(1, FILES + 1)]
    return numbers.choices(range(FILES), weights, k=count)


def make(average, count):
    """(sizes of the files, requests)."""
    asked = requests(count)
    return sizes(average, [asked.count(number) for number in range(FILES)]), asked
