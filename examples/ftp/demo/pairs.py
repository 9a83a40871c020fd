"""Which ftp programs there are, and how they are started."""

import os
import shutil

from .hosts import HERE, Failure, launcher


class Pair:
    """A client and a server. `linked` ones are on SOVIA by themselves, others under the launcher."""

    def __init__(self, name, client, server, linked=False):
        self.name = name
        self.client = client
        self.server = server
        self.linked = linked

    def missing(self):
        """The first of its programs that is not there."""
        for program in (self.client[0], self.server[0]):
            if not shutil.which(program):
                return program
        return None

    def client_words(self, sovia, passive, port):
        """The client's command line, to a server on host b."""
        before = launcher() if sovia and not self.linked else []
        # tnftp's editing would draw on the terminal; it goes by its own options.
        if os.path.basename(self.client[0]) == 'tnftp':
            options = ['-inev', '-p' if passive else '-A']
        else:
            options = ['-inv'] + (['-p'] if passive else [])
        return [*before, *self.client, *options, 'b', str(port)]


def pairs(built):
    """All pairs, by name. `built` is where `build` has put those made from upstream's sources."""
    plain, linked = os.path.join(built, 'plain'), os.path.join(built, 'linked')
    debian = ['/usr/sbin/in.ftpd', '-z', 'nossl']
    found = [
        Pair('linked', [f'{linked}/ftp'], [f'{linked}/in.ftpd'], linked=True),
        Pair('built', [f'{plain}/ftp'], [f'{plain}/in.ftpd']),
        Pair('ftp-ssl', ['ftp-ssl', '-z', 'nossl'], debian),
        Pair('tnftp', ['tnftp'], debian),
    ]
    return {pair.name: pair for pair in found}


class Server:
    """A pair's server on host b, with an account to log in to, on a port of its own."""

    def __init__(self, hosts, pair, sovia, port, directory, daemon=False):
        self.port = port
        self.home = os.path.join(directory, 'home')
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o755)
        before = launcher() if sovia and not pair.linked else []
        if daemon:
            # It listens on the port of ftp in /etc/services and goes to the background.
            command = [*before, *pair.server, '-D']
        else:
            config = os.path.join(directory, 'inetd.conf')
            with open(config, 'w', encoding='ascii') as file:
                file.write(f'{port} stream tcp4 nowait root {pair.server[0]} in.ftpd '
                           f'{" ".join(pair.server[1:])}\n')
            # -E: or it would take the launcher's variables out of the environment.
            command = [*before, 'inetd', '-i', '-E', '-R', '100000', config]
        hosts.start('b', os.path.join(directory, 'server.log'), os.path.join(HERE, 'with_accounts'),
                    directory, *command, env={'FTP_PORT': str(port)} if daemon else None)
        try:
            hosts.await_port('b', port)
        except Failure as failure:
            with open(os.path.join(directory, 'server.log'), encoding='utf-8', errors='replace') as log:
                raise Failure(f'{failure}: {log.read()}') from failure
