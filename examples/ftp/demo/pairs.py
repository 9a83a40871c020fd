"""Which ftp programs there are, and how they are started."""

import os
import shutil

from .hosts import HERE, Failure, launcher


class Pair:
    """A client and a server. What is to be on SOVIA runs under the launcher, except where `linked` names the
    programs that are on it by themselves."""

    def __init__(self, name, client, server, linked=None):
        self.name = name
        self.programs = {'client': client, 'server': server}
        self.linked = linked

    def missing(self):
        """The first of its programs that is not there."""
        for programs in (self.programs, self.linked or {}):
            for words in programs.values():
                if not shutil.which(words[0]):
                    return words[0]
        return None

    def program(self, role, sovia):
        """The words that the program's command line begins with."""
        return (self.linked or self.programs)[role] if sovia else self.programs[role]

    def launcher(self, sovia):
        """What comes before them."""
        return launcher() if sovia and not self.linked else []

    def client_words(self, sovia, passive, port, host='b'):
        """The client's command line, to a server on this host."""
        program = self.program('client', sovia)
        # tnftp's editing would draw on the terminal; which mode is its default differs too.
        if os.path.basename(program[0]) == 'tnftp':
            options = ['-inev', '-p' if passive else '-A']
        else:
            options = ['-inv'] + (['-p'] if passive else [])
        return [*self.launcher(sovia), *program, *options, host, str(port)]


def pairs(built):
    """All pairs, by name. `built` is where `build` has put those made from upstream's sources."""
    def made(variant):
        return {'client': [os.path.join(built, variant, 'ftp')],
                'server': [os.path.join(built, variant, 'in.ftpd')]}

    plain = made('plain')
    debian = ['/usr/sbin/in.ftpd', '-z', 'nossl']
    found = [
        Pair('linked', plain['client'], plain['server'], made('linked')),
        Pair('built', plain['client'], plain['server']),
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
        before, program = pair.launcher(sovia), pair.program('server', sovia)
        if daemon:
            # It listens on the port of ftp in /etc/services and goes to the background.
            command = [*before, *program, '-D']
        else:
            config = os.path.join(directory, 'inetd.conf')
            with open(config, 'w', encoding='ascii') as file:
                file.write(f'{port} stream tcp4 nowait root {program[0]} in.ftpd '
                           f'{" ".join(program[1:])}\n')
            # -E: or it would take the launcher's variables out of the environment.
            command = [*before, 'inetd', '-i', '-E', '-R', '100000', config]
        hosts.start('b', os.path.join(directory, 'server.log'), os.path.join(HERE, 'with_accounts'),
                    directory, *command, env={'FTP_PORT': str(port)} if daemon else None)
        try:
            hosts.await_port('b', port)
        except Failure as failure:
            with open(os.path.join(directory, 'server.log'), encoding='utf-8', errors='replace') as log:
                raise Failure(f'{failure}: {log.read()}') from failure
