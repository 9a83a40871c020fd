"""What samples say together: median, spread, ratio."""

from statistics import median


def digest(samples):
    """Median and spread of the samples of one way; nothing of no samples."""
    if not samples:
        return {'median': None, 'min': None, 'max': None}
    return {'median': median(samples), 'min': min(samples), 'max': max(samples)}


def ratio(value, base):
    """One median in another one's: of rates and of times alike. None where either is missing or zero."""
    return value / base if value and base else None


def is_worse(better, value, than):
    """Whether a value is worse than another one. `better` says which ones are good: more or less."""
    return value < than if better == 'more' else value > than


def spread_in(base, way):
    """Least, median and most of a way's samples, each in the median of another way."""
    return tuple(ratio(way[key], base['median']) for key in ('min', 'median', 'max'))
