"""Apache: servers of files and pages and proxies before them, and the times in their logs.

Children are processes of their own (prefork), as in the paper's 1.3 and as PHP wants them."""

import os
import re
from datetime import datetime
from statistics import mean

from lab import Failure

MODULES = '/usr/lib/apache2/modules'
PHP = 'libphp8.2.so'
COMMON = '''ServerRoot {folder}
ServerName {name}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
Mutex file:{folder}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User www-data
Group www-data
ErrorLog {folder}/error.log
LogFormat "%D %>s %{{database}}n" times
CustomLog {folder}/access.log times
StartServers 2
MinSpareServers 1
MaxSpareServers 4
KeepAlive On
KeepAliveTimeout 60
MaxKeepAliveRequests 0
'''
WEB = '''Listen {port}
DocumentRoot {folder}/files
<Directory {folder}/files>
Require all granted
</Directory>
'''
WITH_PHP = '''LoadModule php_module {modules}/{php}
<FilesMatch "\\.php$">
SetHandler application/x-httpd-php
</FilesMatch>
'''
# The first port's backend connections are new for each request, as in the paper; the second one's are kept.
PROXY = '''LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_http_module {modules}/mod_proxy_http.so
ErrorLogFormat "%{{u}}t %M"
LogLevel warn proxy:trace2 proxy_http:trace3
Listen {port}
Listen {kept_port}
<VirtualHost *:{port}>
ProxyPass / http://{backend}/ disablereuse=On
</VirtualHost>
<VirtualHost *:{kept_port}>
ProxyPass / http://{backend}/
</VirtualHost>
'''
# Behind which messages of the proxy's log which part of a request's time ends.
PARTS = (('preparing', ('AH00944',)), ('connecting', ('AH00962', 'reusing backend')), ('awaiting', ('Status from backend',)),
         ('answering', ('end body send',)))
BEGIN = 'AH03461'


class Apache:
    """One server with its folder; it runs during a `with`."""

    def __init__(self, turn, host, name, port):
        self.turn = turn
        self.host = host
        self.port = port
        self.folder = os.path.join(turn.work, name)
        os.makedirs(os.path.join(self.folder, 'files'), exist_ok=True)
        self.config = COMMON.format(folder=self.folder, name=name, modules=MODULES)
        self.program = None

    def serve_files(self):
        """Makes it a web server."""
        self.config += WEB.format(folder=self.folder, port=self.port)
        return self

    def serve_pages(self):
        """Makes it one with PHP."""
        self.config += WITH_PHP.format(modules=MODULES, php=PHP)
        return self.serve_files()

    def pass_on(self, backend):
        """Makes it a proxy: at its port with new connections to the backend, at the next one with kept ones."""
        self.config += PROXY.format(modules=MODULES, port=self.port, kept_port=self.port + 1, backend=backend)
        return self

    def __enter__(self):
        path = os.path.join(self.folder, 'conf')
        with open(path, 'w', encoding='ascii') as file:
            file.write(self.config)
        for name in ('access.log', 'error.log'):
            if os.path.exists(os.path.join(self.folder, name)):
                os.remove(os.path.join(self.folder, name))
        # A session of its own: at its end Apache sends a signal to its whole process group.
        self.program = self.turn.lab.start(self.host, os.path.join(self.folder, 'output'), 'setsid', '-w',
                                           *self.turn.way.launcher(), 'apache2', '-f', path, '-DFOREGROUND')
        try:
            self.turn.lab.await_port(self.host, self.port)
        except Failure as failure:
            self.__exit__()
            raise Failure(f'{failure}; it says: {self.said("output")}{self.said("error.log")}'[-500:]) from failure
        return self

    def __exit__(self, *_):
        self.turn.lab.run(self.host, 'sh', '-c', f'kill $(cat {self.folder}/pid) || :')
        self.turn.lab.stop(self.program)

    def said(self, log, since=0):
        """What is in one of its logs behind so many characters."""
        path = os.path.join(self.folder, log)
        if not os.path.exists(path):
            return ''
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()[since:]


def access_times(text):
    """Microseconds of each request, and those of the database, from lines of an access log."""
    found = []
    for line in text.splitlines():
        took, status, database = line.split()
        if status != '200':
            raise Failure(f'Apache answers with status {status}')
        found.append((float(took), float(database) if database != '-' else 0.0))
    return found


def _microseconds(stamp):
    return datetime.strptime(stamp, '%a %b %d %H:%M:%S.%f %Y').timestamp() * 1e6


def proxy_parts(text):
    """Mean microseconds of each part of the requests that a proxy's log tells of."""
    taken = {name: [] for name, _ in PARTS}
    last = None
    waiting = []
    for line in text.splitlines():
        found = re.match(r'(\w{3} \w{3} \d\d [\d:.]+ \d{4}) (.*)', line)
        if not found:
            continue
        if BEGIN in found.group(2):
            last, waiting = _microseconds(found.group(1)), list(PARTS)
        elif waiting and any(message in found.group(2) for message in waiting[0][1]):
            now = _microseconds(found.group(1))
            taken[waiting.pop(0)[0]].append(now - last)
            last = now
    if not all(taken.values()):
        raise Failure(f'the log of the proxy does not tell of a request: {text.strip()[-200:]}')
    return {name: mean(values) for name, values in taken.items()}
