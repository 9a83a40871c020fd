"""That ftp does what it should, whatever carries it. Each check prints a line, "ok: ..." or "not ok: ..."."""

import os
import threading
import time

from . import files
from .client import PROMPT, Client
from .hosts import Failure
from .pairs import Server


class Checks:
    """All checks of one pair. `client_sovia` and `server_sovia` say which ends are on SOVIA."""

    def __init__(self, hosts, pair, client_sovia, server_sovia, work, port, sizes, label):
        self.hosts = hosts
        self.pair = pair
        self.client_sovia = client_sovia
        self.server_sovia = server_sovia
        self.sizes = sizes
        self.label = label
        self.failures = 0
        self.near = os.path.join(work, 'near')
        os.makedirs(self.near)
        self.work = work
        self.port = port
        self.server = None

    def client(self, passive=False, port=None):
        """A client that has logged in."""
        client = Client(self.hosts.words(
            'a', *self.pair.client_words(self.client_sovia, passive, port or self.port)))
        try:
            client.login(self.near)
        except BaseException:
            client.__exit__()
            raise
        return client

    def check(self, text, what, *arguments):
        """Runs one check, which raises what is wrong."""
        try:
            what(*arguments)
            print(f'ok: {self.label}: {text}', flush=True)
        except (Failure, OSError, AssertionError) as failure:
            self.failures += 1
            print(f'not ok: {self.label}: {text}')
            print('  ' + str(failure).replace('\n', '\n  '), flush=True)

    def far(self, name):
        """A file of the server's."""
        return os.path.join(self.server.home, name)

    def run(self, few):
        """Every check, or the first few; returns how many failed."""
        try:
            self.server = Server(self.hosts, self.pair, self.server_sovia, self.port,
                                 os.path.join(self.work, 'server'))
        except Failure as failure:
            self.check('the server starts', raise_it, failure)
            return self.failures
        for size in self.sizes:
            files.make(self.far(f'file{size}'), size)
        files.make_text(self.far('text'), 20000)
        for passive in (False, True):
            how = 'passive' if passive else 'active'
            for size in self.sizes:
                self.check(f'{size} bytes there and back, {how}', self.there_and_back, size, passive)
            self.check(f'text in ASCII mode there and back, {how}', self.ascii, passive)
            self.check(f'directory listings, {how}', self.listings, passive)
        if self.client_sovia and self.server_sovia:
            self.check('a large file goes over lanes', self.over_lanes, 4 * files.SIZES[1])
        if few:
            return self.failures
        self.check('twenty small files in one session', self.many)
        self.check('four clients at once', self.four)
        # The client's handler leaves the interrupted call by siglongjmp.
        self.check('a get that is aborted, and the next one', self.abort_get)
        self.check('a put that is aborted, and the next one', self.abort_put)
        self.check('the server as a daemon of its own', self.daemon)
        return self.failures

    def there_and_back(self, size, passive):
        """Gets a file, puts it back under another name; all three must be the same."""
        with self.client(passive) as client:
            client.transfer(f'get file{size} got')
            client.transfer('put got back')
            client.quit()
        got = os.path.join(self.near, 'got')
        if not files.same(self.far(f'file{size}'), got):
            how = files.difference(self.far(f'file{size}'), got)
            raise Failure(f'what came is not what was sent: {how}')
        if not files.same(got, self.far('back')):
            how = files.difference(got, self.far('back'))
            raise Failure(f'what came back is not what was sent: {how}')
        os.unlink(got)
        os.unlink(self.far('back'))

    def over_lanes(self, size):
        """Where both ends have lanes, the kernel carries only what comes before they are open."""
        files.make(self.far('large'), size)
        before = self.hosts.tcp_bytes()
        with self.client() as client:
            client.transfer('get large large')
            client.transfer('put large back')
            client.quit()
        carried = self.hosts.tcp_bytes() - before
        for path in (os.path.join(self.near, 'large'), self.far('back')):
            if not files.same(self.far('large'), path):
                raise Failure('what came is not what was sent')
            os.unlink(path)
        os.unlink(self.far('large'))
        if carried > size // 2:
            raise Failure(f'the kernel carried {carried} bytes')

    def ascii(self, passive):
        """On systems alike, text arrives as it was."""
        with self.client(passive) as client:
            client.command('ascii', '^200')
            client.transfer('get text text')
            client.transfer('put text text.back')
            client.quit()
        if not files.same(self.far('text'), os.path.join(self.near, 'text')):
            raise Failure('the text came changed')
        if not files.same(self.far('text'), self.far('text.back')):
            raise Failure('the text came back changed')
        os.unlink(self.far('text.back'))

    def listings(self, passive):
        """Names by NLST and LIST, to the terminal and into a file."""
        with self.client(passive) as client:
            for command in ('ls', 'dir', 'nlist'):
                _, output = client.command(command, '^226')
                for name in os.listdir(self.server.home):
                    if name not in output:
                        raise Failure(f'{command} does not show {name}:\n{output}')
            client.command('nlist . names', '^226')
            client.quit()
        with open(os.path.join(self.near, 'names'), encoding='utf-8') as file:
            names = {os.path.basename(line.rstrip('\r\n')) for line in file}
        if names != set(os.listdir(self.server.home)):
            raise Failure(f'nlist says {sorted(names)}')

    def many(self):
        """A data connection for each of many files."""
        os.makedirs(self.far('small'), exist_ok=True)
        for number in range(20):
            files.make(self.far(f'small/{number}'), number * number * 40)
        small = os.path.join(self.near, 'small')
        os.makedirs(small, exist_ok=True)
        with self.client() as client:
            client.command(f'lcd {small}', 'ocal directory')
            client.command('cd small', '^250')
            client.command('mget *', '^226')
            client.quit()
        for number in range(20):
            if not files.same(self.far(f'small/{number}'), os.path.join(small, str(number))):
                raise Failure(f'file {number} came changed')

    def four(self):
        """Two clients get and two put, all at the same time, each three times."""
        source = f'file{self.sizes[0]}'
        local = os.path.join(self.near, 'local')
        files.make(local, self.sizes[0])
        wrong = []

        def one(number):
            try:
                with self.client(passive=number % 2 == 1) as client:
                    for _ in range(3):
                        if number < 2:
                            client.transfer(f'get {source} got{number}')
                            good = files.same(self.far(source), os.path.join(self.near, f'got{number}'))
                        else:
                            client.transfer(f'put local put{number}')
                            good = files.same(local, self.far(f'put{number}'))
                        if not good:
                            wrong.append(f'client {number}: the file came changed')
                    client.quit()
            except (Failure, OSError) as failure:
                wrong.append(f'client {number}: {failure}')

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            raise Failure('\n'.join(wrong))

    def abort_get(self):
        """Ctrl-C in the middle of a file that takes long. The client sends the urgent byte and ABOR."""
        with open(self.far('endless'), 'wb') as file:
            file.truncate(64 << 30)
        os.chmod(self.far('endless'), 0o644)
        try:
            with self.client() as client:
                self.interrupted(client, 'get endless /dev/null', 0.3)
        finally:
            os.unlink(self.far('endless'))

    def abort_put(self):
        """The same in the other direction; the server keeps what it has got."""
        endless = os.path.join(self.near, 'endless')
        with open(endless, 'wb') as file:
            file.truncate(64 << 30)
        with self.client() as client:
            self.interrupted(client, 'put endless endless', 0.1)
        os.unlink(endless)
        if not 0 < os.path.getsize(self.far('endless')) < 64 << 30:
            raise Failure('it was not aborted in the middle')
        os.unlink(self.far('endless'))

    def interrupted(self, client, command, after):
        """Interrupts a transfer some time after it has begun; the session must go on with another file."""
        client.write(command.encode() + b'\n')
        client.begun()
        time.sleep(after)
        client.interrupt()
        client.until(PROMPT, seconds=15)
        client.transfer('get text after')
        if not files.same(self.far('text'), os.path.join(self.near, 'after')):
            raise Failure('the next file came changed')
        client.quit()

    def daemon(self):
        """Not from inetd, but listening itself."""
        port = self.port + 5  # that below it is for the data
        server = Server(self.hosts, self.pair, self.server_sovia, port,
                        os.path.join(self.work, 'daemon'), daemon=True)
        files.make(os.path.join(server.home, 'own'), 3000000)
        for passive in (False, True):
            with self.client(passive, port) as client:
                client.transfer('get own own')
                client.quit()
            if not files.same(os.path.join(server.home, 'own'), os.path.join(self.near, 'own')):
                raise Failure('what came is not what was sent')


def raise_it(failure):
    """An exception from before, as a check."""
    raise failure
