"""A file system of one server (host d) and up to three clients (a, b, c) that each read or write a file of their own at the same
time. Balaji's figures 35 and 36 have PVFS, whose clients are in the kernel or linked with its library, and which Debian does
not have.

Here it is NFS without a kernel: nfs-ganesha, and nfs-cp of libnfs, which asks for 1 MB after the other. NFS 3, since libnfs 4.0
can't encode the writes of NFS 4; Ganesha registers that with rpcbind, but the clients are told its ports. diod was left
out: its programs copy nothing to a server. Figure 35 has the files in memory (tmpfs), figure 36 in a folder of the disk that
writes at once (chattr +S)."""

import filecmp
import os
import shutil
import tempfile
from contextlib import contextmanager

from application import TIMED, Application, Figure, Line, address, times
from lab import ROOT, Failure
from loads import await_text

SERVER = 'd'
CLIENTS = 'abc'
NFS_PORT = 2049
MOUNT_PORT = 20048
PATIENCE = 8    # seconds for a copy
CONFIG = '''NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {nfs}; MNT_Port = {mount}; Enable_UDP = false; Enable_NLM = false;
  Enable_RQUOTA = false; }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Protocols = 3; Squash = No_Root_Squash; SecType = sys, none; Transports = TCP; }}
EXPORT {{ Export_Id = 1; Path = "{folder}"; Pseudo = "/files"; FSAL {{ Name = VFS; }} }}
'''


def bandwidth(texts, size):
    """MB/s of all clients together, from what TIMED has printed for each: from the first begin to the last end."""
    spans = [times(text) for text in texts]
    return size * len(texts) / (max(end for _, end in spans) - min(begin for begin, _ in spans)) * 1e3


class Copies(Application):
    """Reads or writes by several clients at the same time: one figure."""

    hosts = 4
    needs = ('ganesha.nfsd', 'nfs-cp', 'rpcbind', 'chattr')

    def __init__(self, name, figure, writing, on_disk=False):
        self.name = name
        self.figures = (figure,)
        self.writing = writing
        self.on_disk = on_disk

    def sample(self, turn):
        size = (8 if turn.quick else 32) << 20
        source = os.path.join(turn.work, 'source')
        with open(source, 'wb') as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
        figure = self.figures[0]
        with _folder(turn, self.on_disk) as folder, _server(turn, folder):
            return {figure.name: {turn.way.title: {count: self._copies(turn, source, folder, count)
                                                   for count in figure.points}}}

    def _copies(self, turn, source, folder, count):
        """Bandwidth of so many clients."""
        running, targets = [], []
        for host in CLIENTS[:count]:
            path = os.path.join(folder, f'{host}{count}')
            url = f'nfs://{address(SERVER)}{path}?nfsport={NFS_PORT}&mountport={MOUNT_PORT}'
            targets.append(path if self.writing else os.path.join(turn.work, f'read-{host}'))
            if not self.writing:
                shutil.copyfile(source, path)
            output = os.path.join(turn.work, f'client-{host}')
            words = (source, url) if self.writing else (url, targets[-1])
            running.append((output, turn.lab.start(host, output, 'timeout', str(PATIENCE), *TIMED, *turn.way.launcher(),
                                                   'nfs-cp', *words)))
        statuses = [program.wait(PATIENCE + 5) for _, program in running]
        texts = []
        for output, _ in running:
            with open(output, encoding='utf-8', errors='replace') as file:
                texts.append(file.read())
        what = f'{count} clients {"write" if self.writing else "read"}'
        if any(statuses):
            raise Failure(f'{what}: nfs-cp ends with status {statuses} (124: not within {PATIENCE} s) '
                          + ' '.join(texts)[-200:])
        if not all(filecmp.cmp(source, target, shallow=False) for target in targets):
            raise Failure(f'{what}: a file has been damaged on its way')
        for target in targets:
            os.remove(target)
        return bandwidth(texts, os.path.getsize(source))


@contextmanager
def _folder(turn, on_disk):
    """In memory, or on the disk and written at once."""
    place = os.environ.get('VIADUCT_BUILD', os.path.join(ROOT, 'build')) if on_disk else '/dev/shm'
    folder = tempfile.mkdtemp(dir=place, prefix='bench-files-')
    try:
        if on_disk:
            turn.lab.run(SERVER, 'chattr', '+S', folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _server(turn, folder):
    """Ganesha."""
    config, log = os.path.join(turn.work, 'ganesha.conf'), os.path.join(turn.work, 'ganesha.log')
    with open(config, 'w', encoding='ascii') as file:
        file.write(CONFIG.format(nfs=NFS_PORT, mount=MOUNT_PORT, folder=folder))
    with open(log, 'w', encoding='ascii'):
        pass
    programs = [turn.lab.start(SERVER, os.path.join(turn.work, 'rpcbind.log'), 'rpcbind', '-f')]
    try:
        turn.lab.await_port(SERVER, 111)
        programs.append(turn.lab.start(SERVER, os.path.join(turn.work, 'ganesha.output'), *turn.way.launcher(), 'ganesha.nfsd',
                                       '-F', '-f', config, '-L', log, '-p', os.path.join(turn.work, 'ganesha.pid')))
        await_text(log, 'NFS SERVER INITIALIZED')
        turn.lab.await_port(SERVER, NFS_PORT)
        yield
    finally:
        for program in reversed(programs):
            turn.lab.stop(program)


def _figure(number, title, points, paper):
    """`paper`: its SOVIA (SDP) in its TCP, at the last point."""
    lines = (Line('TCP', (1.0, None)), Line('SOVIA', (paper, None))) if len(points) == 1 else \
        (Line('TCP', (None, 1.0)), Line('SOVIA', (None, paper)))
    return Figure(f'balaji-figure-{number}', f'Balaji figure {number}: {title}, all clients together', 'MB/s', 'TCP', 'clients',
                  points, lines)


APPLICATIONS = (
    Copies('filesystem-read', _figure('35a', 'reading files in memory', (1, 2, 3), 2.4), writing=False),
    Copies('filesystem-write', _figure('35b', 'writing files in memory', (1, 2, 3), 1.5), writing=True),
    Copies('filesystem-sync', _figure('36', 'writing files to a disk, with sync', (3,), 1.09), writing=True, on_disk=True))
