"""The programs that are measured: how each is started, and how its figures are read."""

import os
import shutil
import sys
import time

import outputs
from idle import Meter
from lab import ROOT, Failure

OWN = os.path.join(os.path.dirname(os.path.realpath(__file__)), 'own')
PYTHON = '/usr/bin/python3'


class Load:
    """A server and a client. Each sample has a server of its own, so that none is helped by the one before."""

    needs = ()            # programs
    udp = False
    launched = True       # with SOVIA's launcher

    def missing(self):
        """Why the load can't be run, or nothing."""
        for name in self.needs:
            if not shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin'):
                return f'there is no {name}'
        return None

    def server(self, way, port, work):
        """The server's words."""
        raise NotImplementedError

    def client(self, way, address, port):
        """The client's words."""
        raise NotImplementedError

    def figures(self, text):
        """From what the client prints."""
        raise NotImplementedError

    def sample(self, lab, way, port, work):
        """Runs it once."""
        launcher = way.launcher() if self.launched else []
        place = lab.place
        log = os.path.join(work, 'server.log')
        server = lab.start(place.server, log, *launcher, *self.server(way, port, work))
        try:
            lab.await_port(place.server, port, udp=self.udp)
            return self.ask(lab, launcher, way, port)
        except Failure as failure:
            with open(log, encoding='utf-8', errors='replace') as file:
                said = file.read().strip()
            raise Failure(f'{failure}; the server says: {said[-300:]}' if said else str(failure)) from failure
        finally:
            lab.stop(server)

    def ask(self, lab, launcher, way, port):
        """The client's part of a sample."""
        with Meter() as meter:
            text = lab.run('a', *launcher, *self.client(way, lab.place.address, port))
        return {**self.read(text), 'processor_s': meter.seconds}

    def read(self, text):
        """Figures, or the Failure that there are none."""
        try:
            return self.figures(text)
        except ValueError as problem:
            raise Failure(f'{problem}: {text.strip()[-200:]}') from problem


class Sockperf(Load):
    """A ping-pong of messages."""

    needs = ('sockperf',)

    def __init__(self, size, udp=False, seconds=2, messages_s=None):
        self.size = size
        self.udp = udp
        self.seconds = seconds
        self.messages_s = messages_s  # at most; none: each as soon as the last one is answered

    def _common(self):
        return [] if self.udp else ['--tcp']

    def server(self, way, port, work):
        return ['sockperf', 'server', *self._common(), '-i', '0.0.0.0', '-p', str(port)]

    def client(self, way, address, port):
        mode = ['under-load', '--mps', str(self.messages_s), '--reply-every', '1'] if self.messages_s else ['ping-pong']
        return ['sockperf', *mode, *self._common(), '-i', address, '-p', str(port), '-m', str(self.size), '-t',
                str(self.seconds)]

    figures = staticmethod(outputs.sockperf)


class SockperfMany(Sockperf):
    """A ping-pong that goes round many connections, all of which both ends wait for by epoll."""

    def __init__(self, size, connections):
        super().__init__(size)
        self.connections = connections

    def _feed(self, address, port):
        path = f'/run/sockperf-{address}-{port}'
        with open(path, 'w', encoding='ascii') as file:
            for number in range(self.connections):
                file.write(f'T:{address}:{port + number}\n')
        return ['-f', path, '-F', 'e']

    def server(self, way, port, work):
        return ['sockperf', 'server', *self._feed('0.0.0.0', port)]

    def client(self, way, address, port):
        return ['sockperf', 'ping-pong', *self._feed(address, port), '-m', str(self.size), '-t', str(self.seconds)]


class Redis(Load):
    """redis-benchmark."""

    needs = ('redis-server', 'redis-benchmark')

    def __init__(self, clients, requests, pipeline=1):
        self.clients = clients
        self.requests = requests
        self.pipeline = pipeline

    def server(self, way, port, work):
        return ['redis-server', '--bind', '0.0.0.0', '--protected-mode', 'no', '--save', '', '--appendonly', 'no',
                '--dir', work, '--port', str(port)]

    def client(self, way, address, port):
        return ['redis-benchmark', '-h', address, '-p', str(port), '-c', str(self.clients), '-n', str(self.requests),
                '-P', str(self.pipeline), '-t', 'get', '--csv']

    figures = staticmethod(outputs.redis)


NGINX = '''worker_processes auto;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {port}; root {folder}/web; }}
}}
'''


class Nginx(Load):
    """nginx with a file of so many bytes; what fetches it is the subclass's."""

    def __init__(self, size):
        self.size = size

    def server(self, way, port, work):
        folder = os.path.join(work, 'nginx')
        os.makedirs(os.path.join(folder, 'web'), exist_ok=True)
        name = os.path.join(folder, 'web', str(self.size))
        if not os.path.exists(name):
            with open(name, 'wb') as file:
                for _ in range(self.size // 1024):
                    file.write(b'x' * 1024)
        with open(os.path.join(folder, 'conf'), 'w', encoding='ascii') as file:
            file.write(NGINX.format(folder=folder, port=port))
        # Not the user www-data: a program that gives up root's rights is a case of its own.
        return ['nginx', '-c', os.path.join(folder, 'conf'), '-g', 'daemon off; user root;']

    def url(self, address, port):
        """Of the file."""
        return f'http://{address}:{port}/{self.size}'


class Wrk(Nginx):
    """wrk for two seconds, the first ones included in which connections get lanes."""

    needs = ('nginx', 'wrk')

    def __init__(self, size, connections):
        super().__init__(size)
        self.connections = connections

    def client(self, way, address, port):
        return ['wrk', '-t', str(min(2, self.connections)), '-c', str(self.connections), '-d', '2s',
                self.url(address, port)]

    figures = staticmethod(outputs.wrk)


class Curl(Nginx):
    """One large file."""

    needs = ('nginx', 'curl')

    def client(self, way, address, port):
        return ['curl', '-sS', '-f', '-o', '/dev/null', '-w', '%{time_total} %{size_download}\n',
                self.url(address, port)]

    def figures(self, text):
        return outputs.curl(text, self.size)


class Iperf3(Load):
    """A stream for some seconds."""

    needs = ('iperf3',)

    def __init__(self, seconds):
        self.seconds = seconds

    def server(self, way, port, work):
        return ['iperf3', '-s', '-p', str(port)]

    def client(self, way, address, port):
        return ['iperf3', '-c', address, '-p', str(port), '-t', str(self.seconds), '--json']

    figures = staticmethod(outputs.iperf3)


class Netpipe(Load):
    """NPtcp with messages of one size."""

    needs = ('NPtcp',)

    def __init__(self, size):
        self.size = size

    def _common(self, port):
        return ['NPtcp', '-P', str(port), '-o', '/dev/null', '-l', str(self.size), '-u', str(self.size), '-p', '0']

    def server(self, way, port, work):
        return self._common(port)

    def client(self, way, address, port):
        return [*self._common(port), '-h', address]

    figures = staticmethod(outputs.netpipe)


class Memcached(Load):
    """memaslap with threads that have a connection each."""

    needs = ('memcached', 'memcaslap')  # memaslap, as Debian calls it

    def __init__(self, threads):
        self.threads = threads

    def server(self, way, port, work):
        return ['memcached', '-u', 'root', '-l', '0.0.0.0', '-p', str(port), '-U', '0']

    def client(self, way, address, port):
        return ['memcaslap', '-s', f'{address}:{port}', '-T', str(self.threads), '-c', str(self.threads), '-t', '2s']

    figures = staticmethod(outputs.memaslap)


class Exchanges(Load):
    """Short connections, one after the other. `answer`: bytes of an answer; `forks`: the server does for each connection."""

    def __init__(self, connections, exchanges, answer=16, forks=False):
        self.counts = [str(connections), str(exchanges), str(answer)]
        self.serves = [str(answer), *(['forks'] if forks else [])]

    def server(self, way, port, work):
        return [PYTHON, '-B', os.path.join(OWN, 'exchanges.py'), 'serve', str(port), *self.serves]

    def client(self, way, address, port):
        return [PYTHON, '-B', os.path.join(OWN, 'exchanges.py'), address, str(port), *self.counts]

    figures = staticmethod(outputs.milliseconds)


class StreamEnd(Load):
    """The end of a stream."""

    def __init__(self, size, count):
        self.counts = [str(size), str(count)]

    def server(self, way, port, work):
        return [PYTHON, '-B', os.path.join(OWN, 'stream_end.py'), 'serve', str(port)]

    def client(self, way, address, port):
        return [PYTHON, '-B', os.path.join(OWN, 'stream_end.py'), address, str(port), *self.counts]

    figures = staticmethod(outputs.milliseconds)


class Crowded(Load):
    """A load beside two busy loops."""

    def __init__(self, load):
        self.load = load
        self.needs = load.needs

    def sample(self, lab, way, port, work):
        busy = [lab.start('a', os.devnull, 'timeout', '60', PYTHON, '-c', 'while True: pass') for _ in range(2)]
        try:
            return self.load.sample(lab, way, port, work)
        finally:
            for each in busy:
                lab.stop(each)


class OnOneProcessor(Load):
    """A load of which both ends have one processor."""

    def __init__(self, load):
        self.load = load
        self.needs = load.needs

    def server(self, way, port, work):
        return ['taskset', '-c', '0', *self.load.server(way, port, work)]

    def client(self, way, address, port):
        return ['taskset', '-c', '0', *self.load.client(way, address, port)]

    def figures(self, text):
        return self.load.figures(text)


class Beside(Load):
    """Messages beside a stream of the same way: how long they wait in the switch's queue. They are sent by the clock: those
    of a ping-pong would be counted most often while the queue is empty."""

    def __init__(self, size):
        self.pings = Sockperf(size, seconds=3, messages_s=500)
        self.stream = Iperf3(5)
        self.needs = self.pings.needs + self.stream.needs

    def sample(self, lab, way, port, work):
        log = os.path.join(work, 'stream.log')
        server = lab.start(lab.place.server, log, *way.launcher(), *self.stream.server(way, port + 1, work))
        try:
            lab.await_port(lab.place.server, port + 1)
            client = os.path.join(work, 'stream.json')
            stream = lab.start('a', client, *way.launcher(),
                               *self.stream.client(way, lab.place.address, port + 1))
            try:
                figures = self.pings.sample(lab, way, port, work)
                stream.wait(30)
            finally:
                lab.stop(stream)
            with open(client, encoding='utf-8', errors='replace') as file:
                return {**figures, 'stream_gbit_s': self.stream.read(file.read())['value']}
        finally:
            lab.stop(server)


class Vipl(Load):
    """Messages of VIPL, by viaping; over TCP the same by tcpping."""

    launched = False

    def __init__(self, size, count):
        self.words = ['--size', str(size), '--count', str(count), '--wait', 'block', '--bandwidth', '--json']

    def server(self, way, port, work):
        return ['viaping', '--server'] if way.is_sovia else ['tcpping', '--server', '--port', str(port)]

    def client(self, way, address, port):
        return ['viaping', 'b', *self.words] if way.is_sovia else ['tcpping', 'b', '--port', str(port), *self.words]

    figures = staticmethod(outputs.stream)

    def sample(self, lab, way, port, work):
        log = os.path.join(work, 'server.log')
        server = lab.start('b', log, *self.server(way, port, work))
        try:
            if way.is_sovia:
                await_text(log, 'waiting')
            else:
                lab.await_port('b', port)
            return self.ask(lab, [], way, port)
        finally:
            lab.stop(server)


class ViplBeside(Load):
    """Messages of VIPL beside a stream of VIPL the same way; over TCP the same by tcpping. The stream begins first and ends
    last."""

    launched = False

    def __init__(self, size, count):
        self.stream = Vipl(32768, count)
        self.words = ['--size', str(size), '--count', '2000', '--wait', 'block', '--json']

    def sample(self, lab, way, port, work):
        ports = [port] if way.is_sovia else [port, port + 1]  # one server of VIPL serves both
        logs = [os.path.join(work, f'server-{each}.log') for each in ports]
        servers = [lab.start('b', log, *self.stream.server(way, each, work)) for log, each in zip(logs, ports)]
        try:
            if way.is_sovia:
                await_text(logs[0], 'waiting')
            else:
                for each in ports:
                    lab.await_port('b', each)
            said = os.path.join(work, 'stream.json')
            stream = lab.start('a', said, *self.stream.client(way, 'b', port))
            time.sleep(0.5)
            name = ['viaping', 'b'] if way.is_sovia else ['tcpping', 'b', '--port', str(port + 1)]
            with Meter() as meter:
                figures = outputs.ping(lab.run('a', *name, *self.words))
            if stream.poll() is not None:
                raise Failure('the stream ended before the messages')
            stream.wait(60)
            with open(said, encoding='utf-8', errors='replace') as file:
                return {**figures, 'processor_s': meter.seconds, 'stream_mbit_s': outputs.stream(file.read())['value']}
        finally:
            for server in servers:
                lab.stop(server)


class Ftp(Load):
    """netkit-ftp and linux-ftpd, as ./demo builds them: one transfer in a session of its own. `host`: the server's, as
    the client calls it."""

    def __init__(self, direction, size, host='b'):
        self.direction = direction
        self.size = size
        self.host = host
        self.built = os.path.join(os.environ.get('VIADUCT_BUILD', os.path.join(ROOT, 'build')),
                                  'examples', 'ftp', 'upstream')

    def _pair(self):
        return _ftp_demo().pairs.pairs(self.built)['built']

    def missing(self):
        missing = self._pair().missing()
        return f'the ftp programs are not built (examples/ftp): there is no {os.path.basename(missing)}' \
            if missing else None

    def sample(self, lab, way, port, work):
        demo = _ftp_demo()
        folder = os.path.join(work, 'ftp')
        shutil.rmtree(folder, ignore_errors=True)
        near = os.path.join(folder, 'near')
        os.makedirs(near)
        before = len(lab.programs)
        try:
            server = demo.pairs.Server(lab, self._pair(), way.is_sovia, port, folder)
            source, target = (near, server.home) if self.direction == 'put' else (server.home, near)
            demo.files.make(os.path.join(source, 'file'), self.size)
            words = self._pair().client_words(way.is_sovia, False, port, self.host)
            with demo.client.Client(lab.words('a', *words)) as client:
                client.login(near)
                with Meter() as meter:
                    seconds, _ = client.transfer(f'{self.direction} file moved')
                client.quit()
            if not demo.files.same(os.path.join(source, 'file'), os.path.join(target, 'moved')):
                raise Failure('the file has been damaged on its way')
            return {'value': seconds, 'processor_s': meter.seconds}
        except demo.hosts.Failure as failure:
            raise Failure(str(failure)) from failure
        finally:
            for program in lab.programs[before:]:
                lab.stop(program)
            shutil.rmtree(folder, ignore_errors=True)


def _ftp_demo():
    """The package of examples/ftp."""
    folder = os.path.join(ROOT, 'examples', 'ftp')
    if folder not in sys.path:
        sys.path.append(folder)
    import demo.client  # pylint: disable=import-outside-toplevel
    import demo.files
    import demo.hosts
    import demo.pairs
    return demo


def await_text(path, text, seconds=10):
    """Waits until a file has that text."""
    end = time.monotonic() + seconds
    while True:
        with open(path, encoding='utf-8', errors='replace') as file:
            said = file.read()
        if text in said:
            return
        if time.monotonic() > end:
            raise Failure(f'a server does not say "{text}" but: {said.strip()[-200:]}')
        time.sleep(0.05)
