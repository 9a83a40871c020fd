"""Two hosts of a lab, and programs on them."""

import os
import shlex
import subprocess
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LAB = os.path.join(HERE, '..', '..', 'tests', 'lab', 'vialab')


class Failure(Exception):
    """Something that should work does not; its text says what."""


def launcher():
    """What is put before a program that is to run on SOVIA: SOVIA_RUN, as words."""
    return shlex.split(os.environ.get('SOVIA_RUN', 'sovia run'))


class Hosts:
    """Hosts a (clients) and b (servers), gone again at the end of a `with`."""

    def __init__(self, name, mtu=1500, agents=True):
        self.name = name
        self.mtu = mtu
        self.agents = agents
        self.programs = []

    def __enter__(self):
        command = [LAB, 'up', '2', '--name', self.name, '--mtu', str(self.mtu)]
        result = subprocess.run(command + ([] if self.agents else ['--no-agent']), capture_output=True,
                                text=True, timeout=60)
        if result.returncode != 0:
            raise Failure('no lab: ' + result.stderr.strip())
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.poll() is None:
                program.terminate()
        subprocess.run([LAB, 'down', '--name', self.name], stdout=subprocess.DEVNULL, timeout=60)
        for program in self.programs:
            program.wait()

    def words(self, host, *command):
        """The command line that runs `command` on a host."""
        return [LAB, 'exec', '--name', self.name, host, *command]

    def run(self, host, *command, check=True):
        """Runs a command to its end and returns what it prints."""
        result = subprocess.run(self.words(host, *command), capture_output=True, text=True, timeout=60)
        if check and result.returncode != 0:
            raise Failure(f'{shlex.join(command)} on host {host}: {result.stderr.strip()}')
        return result.stdout

    def start(self, host, log, *command, env=None):
        """Starts a program that goes on until the hosts are taken down."""
        with open(log, 'wb') as output:
            program = subprocess.Popen(self.words(host, *command), stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output, env={**os.environ, **(env or {})})
        self.programs.append(program)
        return program

    def await_port(self, host, port, seconds=15):
        """Waits until somebody listens on a port."""
        end = time.monotonic() + seconds
        while not self.run(host, 'ss', '-Hltn', f'sport = :{port}'):
            if time.monotonic() > end:
                raise Failure(f'nothing listens on port {port} of host {host}')
            time.sleep(0.05)

    def tcp_bytes(self):
        """What TCP has carried to and from host b, in bytes, at most. Lanes are not among it."""
        names, values = [line.split() for line in self.run('b', 'cat', '/proc/net/snmp').splitlines()
                         if line.startswith('Tcp:')]
        return 1500 * sum(int(value) for name, value in zip(names, values) if name in ('InSegs', 'OutSegs'))

    def offload(self, on):
        """Segmentation offload of both ends of the link, on or off."""
        state = 'on' if on else 'off'
        for host in 'ab':
            self.run(host, 'ethtool', '-K', 'via0', 'tso', state, 'gso', state, 'gro', state)
