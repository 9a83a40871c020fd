"""Hosts to measure between, by vialab."""

import os
import shlex
import subprocess
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, '..', '..', '..'))
VIALAB = os.path.join(ROOT, 'tests', 'lab', 'vialab')
# Ports of Gigabit Ethernet with the queue of a small switch.
SWITCH = '1g,queue=600k'


class Failure(Exception):
    """Something that should work does not; its text says what."""


class Place:
    """Where a row is measured."""

    def __init__(self, title, server, address, options=()):
        self.title = title
        self.server = server    # the host of the servers; the clients are on a
        self.address = address  # theirs
        self.options = options  # of `vialab up`


PLACES = {
    'two-hosts': Place('two hosts joined by a link', 'b', '10.77.0.2'),
    'one-host': Place('one host, 127.0.0.1', 'a', '127.0.0.1'),
    'switch': Place('two hosts on a switch with ports of 1 Gb/s', 'b', '10.77.0.2', ('--switch', SWITCH)),
}


class Lab:
    """Hosts of a place, gone again at the end of a `with`. Programs that are started get `environment`."""

    def __init__(self, place):
        self.place = place
        self.name = f'bench-{os.getpid()}'
        self.environment = {}
        self.programs = []

    def __enter__(self):
        self._vialab('up', '--name', self.name, *self.place.options)
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.poll() is None:
                program.terminate()
        self._vialab('down', '--name', self.name)
        for program in self.programs:
            program.wait()

    @staticmethod
    def _vialab(*words):
        _succeeds(VIALAB, *words)

    def words(self, host, *command):
        """The command line that runs `command` on a host."""
        variables = [f'{name}={value}' for name, value in self.environment.items()]
        return [VIALAB, 'exec', '--name', self.name, host, 'env', *variables, *command]

    def run(self, host, *command, seconds=60):
        """Runs a command to its end and returns what it prints."""
        words = ['timeout', '-k', '5', str(seconds), *self.words(host, *command)]
        result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace',
                                check=False)
        if result.returncode == 124:
            raise Failure(f'{command_name(command)} does not end within {seconds} s')
        if result.returncode != 0:
            raise Failure(f'{command_name(command)} ended with status {result.returncode}: '
                          f'{last_line(result.stderr + result.stdout)}')
        return result.stdout + result.stderr

    def start(self, host, log, *command, env=None):
        """Starts a program that goes on until it is stopped."""
        with open(log, 'wb') as output:
            program = subprocess.Popen(self.words(host, *command), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, env={**os.environ, **(env or {})})
        self.programs.append(program)
        return program

    def stop(self, program):
        """Ends a program that was started."""
        program.terminate()
        try:
            program.wait(10)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def await_port(self, host, port, seconds=15, udp=False):
        """Waits until a program listens on a port."""
        end = time.monotonic() + seconds
        command = [VIALAB, 'exec', '--name', self.name, host, 'ss', '-Hlun' if udp else '-Hltn', f'sport = :{port}']
        while not subprocess.run(command, capture_output=True, timeout=20, check=False).stdout:
            if time.monotonic() > end:
                raise Failure(f'nothing listens on port {port} of host {host}')
            time.sleep(0.05)


def _succeeds(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f'{command_name(words)}: {last_line(result.stderr)}')


def command_name(words):
    """For messages: a command line without the folders before its program and without a second line."""
    return shlex.join([os.path.basename(words[0]), *words[1:]]).split('\n')[0][:120]


def last_line(text):
    """The last one that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), 'it said nothing')
