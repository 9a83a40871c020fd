"""Jobs of two MPI ranks (mpi_load) that `storm` kills something of, as the load tools of loads.py are killed."""
import os
import shutil
import signal
import subprocess
import time

from loads import BUILD, HERE, LAB, say

START_SECONDS = 90    # until both ranks talk, or the job has ended; a busy machine is added
END_SECONDS = 40      # from a kill, or from the death of a hosted job's agent, until no process is left
TALK_SECONDS = 40     # two ranks of which none was killed must have agreed on a round
KINDS = ("mpirun", "orted", "mpi_load")


def compiled(folder):
    """The path of mpi_load; None: there is no Open MPI, or no provider for it."""
    if not (shutil.which("mpirun") and shutil.which("mpicxx") and
            os.path.exists(f"{BUILD}/vipl/fabric/.libs/libviaduct-fi.so")):
        return None
    path = f"{folder}/mpi_load"
    subprocess.run(["mpicxx", "-std=c++20", "-O1", "-I", f"{HERE}/../..", f"{HERE}/mpi_load.cc", "-o", path], check=True)
    return path


class Job:
    """One rank on each host. It is started again whenever all of it has ended."""

    def __init__(self, lab, ledger, slot, hosts, placement, program, folder):
        self.lab, self.ledger, self.slot, self.hosts, self.placement = lab, ledger, slot, hosts, placement
        self.program, self.folder = program, f"{folder}/mpi-{slot}"
        self.mark = f"VIADUCT_STORM_JOB={lab.name}-{slot}".encode()
        self.process = None
        self.begun = 0
        self.survived = self.lost = 0

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)   # what a killed mpirun leaves there is Open MPI's
        os.mkdir(self.folder)
        self.begun += 1
        self.output = f"{self.folder}/output"
        environment = dict(os.environ, VIADUCT_PLACEMENT=self.placement, VIADUCT_BUILD=BUILD, TMPDIR=self.folder,
                           VIADUCT_STORM_JOB=f"{self.lab.name}-{self.slot}")
        self.before = self.counts()
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [LAB, "mpi", "--name", self.lab.name, *self.hosts, "--", self.program, self.ledger.path, str(self.slot)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True)
        self.talks = False
        self.ends_by = None     # when no process may be left
        self.may_end = False    # an agent died while it began
        self.deaths = 0         # of agents that it has lived through, or not
        self.progress = (self.before, time.monotonic())

    def counts(self):
        """Rounds that each rank has agreed on."""
        return tuple(self.ledger.slot(self.slot + rank)["answered"] for rank in (0, 1))

    def processes(self):
        """Its processes by number: mpirun, Open MPI's daemon on the other host, the ranks, and what starts them."""
        out = {}
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/environ", "rb") as file:
                    if self.mark not in file.read().split(b"\0"):
                        continue
                with open(f"/proc/{number}/comm") as file:
                    out[int(number)] = file.read().strip()
            except OSError:
                pass
        # It has no environment any more when it has ended, nor before it has one.
        return out

    def victims(self, *kinds):
        return [pid for pid, name in self.processes().items() if name in (kinds or KINDS)]

    def strike(self, random):
        """One kill -9 of mpirun, of its daemon or of a rank. False: it is ending already, or has nothing of these yet."""
        self.settle()
        victims = self.victims()
        if self.ends_by is not None or not victims:
            return False
        signal_all([random.choice(victims)], signal.SIGKILL)
        self.ends_by = time.monotonic() + END_SECONDS
        return True

    def agent_dies(self, host):
        self.look()
        if host not in self.hosts or self.ends_by is not None:
            return
        if not self.talks:
            self.may_end = True
        elif self.placement == "hosted":
            self.ends_by = time.monotonic() + END_SECONDS
        else:
            self.deaths += 1

    def settle(self):
        """Before something is killed: it has lived through the deaths of agents so far."""
        self.look()
        if self.process.poll() is None:
            self.survived += self.deaths
            self.deaths = 0

    def look(self):
        """What is wrong with it, as text; nothing if nothing. Starts it again if it has ended as it had to."""
        now = time.monotonic()
        counts = self.counts()
        if counts != self.progress[0]:
            self.progress = (counts, now)
        self.talks = self.talks or all(a > b + 1 for a, b in zip(counts, self.before))
        if self.process.poll() is not None:
            return self.look_at_end(now)
        since = now - self.progress[1]
        if self.ends_by is not None:
            return f"does not end: {self.processes()}" if now > self.ends_by else ""
        if not self.talks and since > START_SECONDS:
            return "does not begin"
        if self.talks and since > TALK_SECONDS:
            return "does not get to talk again"
        return ""

    def look_at_end(self, now):
        if self.ends_by is None:
            if self.deaths:
                self.lost += self.deaths
                say(f"lost with an agent: {self}: {self.said()}")
            elif not self.may_end:
                return f"has ended by itself, status {self.process.returncode}: {self.said()}"
            self.ends_by = now + END_SECONDS
        left = self.processes()
        if not left:
            self.start()
        elif now > self.ends_by:
            return f"has left processes: {left}"
        return ""

    def said(self):
        with open(self.output, "rb") as file:
            return file.read()[-1500:].decode(errors="replace")

    def kill(self):
        """All of it at once."""
        if self.process is None:
            return
        self.settle()
        # What has just been started may have no environment yet, and is not found.
        while (left := self.processes()) or self.process.poll() is None:
            signal_all(left, signal.SIGKILL)
            time.sleep(0.01)
        self.process = None

    def __str__(self):
        return f"{self.placement} MPI job on {', '.join(self.hosts)}"


def signal_all(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
