"""The ways that a program's data can take, which are measured in turns."""

from typing import NamedTuple, Optional


class Way(NamedTuple):
    """One of them."""

    key: str
    title: str
    placement: Optional[str]  # of programs on SOVIA; None: kernel TCP

    @property
    def is_sovia(self):
        """Whether programs run on SOVIA."""
        return self.placement is not None

    def launcher(self):
        """The words before a program's own."""
        return ['sovia', 'run'] if self.is_sovia else []

    def environment(self, switches):
        """Variables of programs that go this way; `switches` are SOVIA's."""
        return {'VIADUCT_PLACEMENT': self.placement, **switches} if self.is_sovia else {}


WAYS = (
    Way('tcp', 'kernel TCP', None),
    Way('granted', 'SOVIA, granted', 'granted'),
    Way('hosted', 'SOVIA, hosted', 'hosted'),
)


def turns(run):
    """The ways in the order of one run: each run begins with another one."""
    first = run % len(WAYS)
    return WAYS[first:] + WAYS[:first]
