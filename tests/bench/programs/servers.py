"""Servers of several processes: a database, a proxy, servers of files."""

import os
import shutil
import subprocess
import time

import outputs
from idle import Meter
from lab import Failure
from loads import Load, Nginx, Wrk

POSTGRES = '/usr/lib/postgresql/15/bin'
AS_POSTGRES = ('runuser', '-u', 'postgres', '--')


def _run(*words):
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace',
                            timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f'{os.path.basename(words[0])}: {(result.stderr or result.stdout).strip()[-200:]}')


class Pgbench(Load):
    """pgbench with the shortest query, so that the way there and back counts. The server has a process for each client."""

    def __init__(self, clients):
        self.clients = clients

    def missing(self):
        return None if os.path.exists(os.path.join(POSTGRES, 'postgres')) else 'there is no PostgreSQL 15'

    def server(self, way, port, work):
        folder = os.path.join(work, 'postgres')
        data = os.path.join(folder, 'data')
        if not os.path.isdir(data):
            os.chmod(work, 0o755)
            os.makedirs(folder)
            shutil.chown(folder, 'postgres')
            _run(*AS_POSTGRES, os.path.join(POSTGRES, 'initdb'), '-D', data, '-A', 'trust', '-N')
            with open(os.path.join(data, 'pg_hba.conf'), 'a', encoding='ascii') as file:
                file.write('host all all 0.0.0.0/0 trust\n')
        return [*AS_POSTGRES, os.path.join(POSTGRES, 'postgres'), '-D', data, '-h', '0.0.0.0', '-p', str(port),
                '-k', folder]

    def client(self, way, address, port):
        query = f'/run/pgbench-{port}'
        with open(query, 'w', encoding='ascii') as file:
            file.write('SELECT 1;\n')
        return [os.path.join(POSTGRES, 'pgbench'), '-h', address, '-p', str(port), '-U', 'postgres', '-n', '-f', query,
                '-c', str(self.clients), '-j', str(min(2, self.clients)), '-T', '2', 'postgres']

    def ask(self, lab, launcher, way, port):
        await_database(lab, lab.place.server, port)
        return super().ask(lab, launcher, way, port)

    figures = staticmethod(outputs.pgbench)


def await_database(lab, host, port):
    """Waits until PostgreSQL takes clients. Its port is open before."""
    ready = lab.words(host, os.path.join(POSTGRES, 'pg_isready'), '-q', '-h', '127.0.0.1', '-p', str(port))
    end = time.monotonic() + 15
    while subprocess.run(ready, check=False, timeout=20).returncode != 0:
        if time.monotonic() > end:
            raise Failure('the database takes no clients')
        time.sleep(0.05)


HAPROXY = '''global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend web
  bind :{port}
  default_backend origin
backend origin
  http-reuse always
  server origin {origin}
'''


class Proxied(Wrk):
    """wrk through haproxy, which is on another host than wrk and nginx."""

    needs = Wrk.needs + ('haproxy',)
    origin = '10.77.0.1'

    def server(self, way, port, work):
        path = os.path.join(work, 'haproxy.conf')
        with open(path, 'w', encoding='ascii') as file:
            file.write(HAPROXY.format(port=port, origin=f'{self.origin}:{port + 1}'))
        return ['haproxy', '-db', '-f', path]

    def sample(self, lab, way, port, work):
        log = os.path.join(work, 'origin.log')
        origin = lab.start('a', log, *way.launcher(), *Nginx.server(self, way, port + 1, work))
        try:
            lab.await_port('a', port + 1)
            return super().sample(lab, way, port, work)
        finally:
            lab.stop(origin)


class Fetched(Load):
    """A file that a program fetches, timed from its start to its end."""

    def __init__(self, size):
        self.size = size

    def file(self, work):
        """Of that size, in the folder that is returned."""
        folder = os.path.join(work, 'files')
        path = os.path.join(folder, 'file')
        if not os.path.exists(path) or os.path.getsize(path) != self.size:
            os.makedirs(folder, exist_ok=True)
            with open(path, 'wb') as file:
                for _ in range(self.size >> 16):
                    file.write(os.urandom(1 << 16))
        self.source = path
        return folder

    def target(self):
        """Where the file comes to."""
        return self.source + '.fetched'

    def ask(self, lab, launcher, way, port):
        words = [*launcher, *self.client(way, lab.place.address, port)]
        begin = time.monotonic()
        with Meter() as meter:
            lab.run('a', *words)
        seconds = time.monotonic() - begin
        with open(self.source, 'rb') as one, open(self.target(), 'rb') as other:
            same = one.read() == other.read()
        os.remove(self.target())
        if not same:
            raise Failure('the file has been damaged on its way')
        return {'value': seconds, 'processor_s': meter.seconds}


class Rsync(Fetched):
    """rsync from a daemon, which forks for each client."""

    needs = ('rsync',)

    def server(self, way, port, work):
        folder = self.file(work)
        path = os.path.join(work, 'rsync.conf')
        with open(path, 'w', encoding='ascii') as file:
            file.write(f'use chroot = no\nuid = root\ngid = root\n[files]\npath = {folder}\n')
        return ['rsync', '--daemon', '--no-detach', '--config', path, '--port', str(port)]

    def client(self, way, address, port):
        return ['rsync', '--whole-file', f'rsync://{address}:{port}/files/file', self.target()]


class Scp(Fetched):
    """scp from sshd, which executes itself anew for each client."""

    needs = ('scp', 'sshd', 'ssh-keygen')

    def server(self, way, port, work):
        self.file(work)
        self.key = os.path.join(work, 'key')
        if not os.path.exists(self.key):
            _run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', self.key)
        os.makedirs('/run/sshd', exist_ok=True)
        settings = {'HostKey': self.key, 'AuthorizedKeysFile': self.key + '.pub', 'StrictModes': 'no', 'PidFile': 'none',
                    'PermitRootLogin': 'yes', 'UsePAM': 'no', 'Subsystem': 'sftp internal-sftp'}
        return ['/usr/sbin/sshd', '-D', '-e', '-f', '/dev/null', '-p', str(port),
                *(word for name, value in settings.items() for word in ('-o', f'{name}={value}'))]

    def client(self, way, address, port):
        return ['scp', '-q', '-i', self.key, '-P', str(port), '-o', 'StrictHostKeyChecking=no', '-o',
                'UserKnownHostsFile=/dev/null', '-o', 'LogLevel=ERROR', f'root@{address}:{self.source}', self.target()]
