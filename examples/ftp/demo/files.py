"""Files to transfer."""

import hashlib
import os
import random

# The papers' two, and one that no cache holds.
SIZES = (13827767, 65257948, 512 * 1024 * 1024)


def make(path, size):
    """A file of random bytes."""
    with open(path, 'wb') as file:
        while size > 0:
            piece = os.urandom(min(size, 4 << 20))
            file.write(piece)
            size -= len(piece)
    os.chmod(path, 0o644)


def make_text(path, lines):
    """A file of lines of many lengths, none of which needs care in ASCII mode."""
    numbers = random.Random(lines)
    with open(path, 'w', encoding='ascii', newline='\n') as file:
        for number in range(lines):
            file.write(f'{number} ' + 'viaduct ' * numbers.randrange(30) + '\n')
    os.chmod(path, 0o644)


def digest(path):
    """SHA-256 of a file's content."""
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def same(one, other):
    """Whether two files have the same content."""
    return os.path.getsize(one) == os.path.getsize(other) and digest(one) == digest(other)


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
