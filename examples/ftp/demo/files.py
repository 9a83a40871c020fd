"""Files to transfer."""

import os
import random

# The papers' two, and one that no cache holds.
SIZES = (13827767, 65257948, 512 * 1024 * 1024)
PIECE = 4 << 20


def make(path, size):
    """A file of random bytes. Behind the first piece come the same bytes, begun elsewhere in each of the others."""
    piece = os.urandom(min(size, PIECE))
    with open(path, 'wb') as file:
        for number, at in enumerate(range(0, size, PIECE)):
            turn = number * 4099 % len(piece)
            file.write((piece[turn:] + piece[:turn])[:size - at])
    os.chmod(path, 0o644)


def make_text(path, lines):
    """A file of lines of many lengths, none of which needs care in ASCII mode."""
    numbers = random.Random(lines)
    with open(path, 'w', encoding='ascii', newline='\n') as file:
        for number in range(lines):
            file.write(f'{number} ' + 'viaduct ' * numbers.randrange(30) + '\n')
    os.chmod(path, 0o644)


def same(one, other):
    """Whether two files have the same content."""
    with open(one, 'rb') as first, open(other, 'rb') as second:
        while True:
            piece = first.read(1 << 18)
            if piece != second.read(1 << 18):
                return False
            if not piece:
                return True


def difference(one, other):
    """How two files that are not the same differ, for people."""
    lengths = f'{os.path.getsize(one)} and {os.path.getsize(other)} bytes'
    at = 0
    with open(one, 'rb') as first, open(other, 'rb') as second:
        while True:
            a, b = first.read(1 << 16), second.read(1 << 16)
            if a != b or not a:
                same_here = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                return f'{lengths}, different from byte {at + same_here}'
            at += len(a)
