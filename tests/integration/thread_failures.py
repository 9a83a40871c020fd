"""Has an exception of any thread end the program at once, with its traceback: the other end then fails with a reason, and
does not wait until its time is up. For programs with threads: import it, and nothing more."""

import os
import sys
import threading


def _end(failure):
    threading.__excepthook__(failure)
    sys.stderr.flush()
    os._exit(70)


threading.excepthook = _end
