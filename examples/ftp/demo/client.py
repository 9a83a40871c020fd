"""An ftp client, driven through a terminal as a person would drive it."""

import os
import pty
import re
import selectors
import subprocess
import termios
import time

from .hosts import Failure

PROMPT = rb'(?:^|\n|\r)ftp> $'


class Client:
    """One program with its session. All the clients used here have the same commands and prompt."""

    def __init__(self, command, seconds=30):
        self.seconds = seconds
        self.transcript = b''
        self.terminal, inner = pty.openpty()
        modes = termios.tcgetattr(inner)
        modes[1] &= ~termios.OPOST
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, modes)
        self.program = subprocess.Popen(['setsid', '--ctty', *command], stdin=inner, stdout=inner, stderr=inner,
                                        env={**os.environ, 'TERM': 'dumb'})
        os.close(inner)
        os.set_blocking(self.terminal, False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.terminal, selectors.EVENT_READ)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()
        self.program.wait()
        self.selector.close()
        os.close(self.terminal)

    def _failure(self, what):
        return Failure(f'{what}; the session:\n' + self.transcript.decode(errors='replace')[-700:])

    def _read(self, output, end):
        """Adds what the client prints next; false at its end."""
        if not self.selector.select(max(0, end - time.monotonic())):
            raise self._failure(f'the client has nothing more to say')
        try:
            piece = os.read(self.terminal, 65536)
        except BlockingIOError:
            return True
        except OSError:
            piece = b''
        output += piece
        self.transcript += piece
        return bool(piece)

    def until(self, *patterns, seconds=None):
        """What the client prints up to one of these patterns at least."""
        output = bytearray()
        end = time.monotonic() + (seconds or self.seconds)
        while not any(re.search(pattern, output) for pattern in patterns):
            if not self._read(output, end):
                raise self._failure('the client has ended')
        return output.decode(errors='replace')

    def write(self, text):
        """Types something."""
        self.transcript += text
        os.write(self.terminal, text)

    def command(self, text, expect='', seconds=None):
        """Types a command. Returns the seconds until the next prompt and what was printed before it;
        `expect` is a pattern that this must match."""
        begin = time.monotonic()
        self.write(text.encode() + b'\n')
        output = self.until(PROMPT, seconds=seconds)
        taken = time.monotonic() - begin
        if not re.search(expect, output, re.MULTILINE):
            raise self._failure(f'"{text}" was not answered with {expect}')
        return taken, output

    def login(self, directory):
        """Logs in after a start with the host and the port; `directory` is the client's own."""
        self.until(PROMPT)
        if '220' not in self.transcript.decode(errors='replace'):
            raise self._failure('the server does not greet')
        self.command('user mover cargo', '^230')
        self.command(f'lcd {directory}', 'ocal directory')
        self.command('binary', '^200')

    def transfer(self, text):
        """A command that moves a file. Returns the seconds it took, and those that the client itself
        counts, which are without the data connection's making and, sending, without what the system still
        holds; none where it does not say."""
        taken, output = self.command(text, '^226', seconds=self.seconds * 4)
        said = re.search(r'bytes (?:sent|received) in ([0-9.e+-]+) ?secs', output)
        return taken, float(said.group(1)) if said else None

    def begun(self):
        """Waits until the server says that a transfer begins."""
        if '\n150' not in '\n' + self.until(rb'(?m)^150', PROMPT):
            raise self._failure('the transfer does not begin')

    def interrupt(self):
        """Ctrl-C."""
        self.write(b'\x03')

    def quit(self):
        """Leaves, and waits until the program has ended."""
        self.write(b'quit\n')
        output = bytearray()
        end = time.monotonic() + self.seconds
        while self._read(output, end):
            pass
        status = self.program.wait(self.seconds)
        if status != 0:
            raise self._failure(f'the client ended with status {status}')
