"""A lab with verified loads (load_tool), and what `storm` and `soak` need to do to them and to ask."""
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAB = os.path.join(HERE, "..", "lab", "vialab")
BUILD = os.path.abspath(os.environ.get("VIADUCT_BUILD") or os.path.join(HERE, "..", "..", "build"))
ROWS = ("beats connections sent sent_bytes verified verified_bytes answered wrong failures refused "
        "opened unanswered").split()
HELD = ("sessions vis connected_vis cqs regions ptags requests held_frames").split()


def run(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


class Autogroups:
    """The kernel's scheduling groups of sessions, off meanwhile: with them processes that yield keep a processor for
    seconds (doc/tried.md), and a process that has no processor is not told from one that hangs."""
    PATH = "/proc/sys/kernel/sched_autogroup_enabled"

    def __enter__(self):
        self.before = self.set("0")

    def __exit__(self, *_):
        self.set(self.before)

    def set(self, to):
        try:
            with open(self.PATH, "r+") as file:
                had = file.read().strip()
                file.seek(0)
                file.write(to or had)
            return had
        except OSError:  # this kernel has none, or they are not ours to turn off
            return None


class Ledger:
    """The counters that programs write: 64 slots of 16 numbers, which outlive the programs."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(64 * 128)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 64 * 128)

    def slot(self, number):
        return dict(zip(ROWS, struct.unpack_from("<12Q", self.map, number * 128)))

    def total(self, row, slots):
        return sum(self.slot(slot)[row] for slot in slots)


class Agent:
    def __init__(self, lab, host):
        self.lab, self.host, self.process, self.stopped = lab, host, None, False
        self.starts = []  # seconds until each one that was started here was ready
        self.pid = int(open(f"{lab.state}/{host}.pid").read())
        self.log = f"{lab.state}/{host}.log"

    def start(self):
        """Until it says that it is ready. The lock of a killed one's interface is free at once."""
        begin = time.monotonic()
        with open(self.log, "ab") as log:
            at = log.tell()
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.lab.netns(self.host), f"{BUILD}/viad", "--config",
                 f"{self.lab.state}/viad.conf", "--interface", "via0", "--name", self.host,
                 "--socket", "@viaduct"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        self.pid = self.process.pid
        with open(f"{self.lab.state}/{self.host}.pid", "w") as file:
            file.write(f"{self.pid}\n")
        while True:
            with open(self.log, "rb") as log:
                log.seek(at)
                if b"ready:" in log.read():
                    break
            if self.process.poll() is not None or time.monotonic() - begin > 10:
                return False
            time.sleep(0.005)
        self.starts.append(time.monotonic() - begin)
        return True

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
        else:
            while os.path.exists(f"/proc/{self.pid}"):
                time.sleep(0.002)

    def alive(self):
        try:
            return open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self, row="VmRSS"):
        """KB."""
        for line in open(f"/proc/{self.pid}/status"):
            if line.startswith(row + ":"):
                return int(line.split()[1])
        return 0

    def memfds(self):
        """Files in memory that it has, by descriptor or mapped."""
        count = 0
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += os.readlink(f"/proc/{self.pid}/fd/{fd}").startswith("/memfd:")
            except OSError:
                pass
        maps = open(f"/proc/{self.pid}/maps").read()
        return count + maps.count("/memfd:")

    def counters(self):
        text = run("ip", "netns", "exec", self.lab.netns(self.host), f"{BUILD}/viad", "--counters",
                   "--socket", "@viaduct", check=False)
        out = {}
        for line in text.splitlines():
            if line.startswith("viaduct_"):
                name, value = line.rsplit(" ", 1)
                out[name.split("{")[0]] = out.get(name.split("{")[0], 0) + int(float(value))
        return out

    def children(self):
        """macvlan children of the interface, and BPF programs on any."""
        links = run("ip", "-n", self.lab.netns(self.host), "-o", "-d", "link", check=False)
        return links.count(": vdg")


class Lab:
    def __init__(self, name, hosts, *options):
        self.name, self.hosts = name, "abcdefgh"[:hosts]
        self.state = f"/run/viaduct-lab/{name}"
        environment = dict(os.environ, VIADUCT_BUILD=BUILD)
        subprocess.run([LAB, "up", str(hosts), "--name", name, *options], check=True, env=environment)
        self.agents = {host: Agent(self, host) for host in self.hosts}

    def netns(self, host):
        return f"viaduct-{self.name}-{host}"

    def down(self):
        for agent in self.agents.values():
            if agent.process is not None and agent.alive():
                agent.process.terminate()
                agent.process.wait()
        subprocess.run([LAB, "down", "--name", self.name], check=False)


def program(path):
    """A program of the build tree, past libtool's wrapper."""
    folder, name = os.path.split(f"{BUILD}/{path}")
    return f"{folder}/.libs/{name}" if os.path.exists(f"{folder}/.libs/{name}") else f"{folder}/{name}"


class Worker:
    """A load_tool, or on SOVIA a socket_load_tool, whichever process it is at the time."""

    def __init__(self, lab, ledger, slot, host, arguments, placement, output, sockets=False):
        self.lab, self.ledger, self.slot, self.host = lab, ledger, slot, host
        self.arguments, self.placement, self.output = arguments, placement, output
        self.sockets = sockets
        self.process = None

    def start(self):
        self.begun = time.monotonic()
        environment = dict(os.environ, VIADUCT_PLACEMENT=self.placement, VIADUCT_SOCKET="@viaduct",
                           LD_LIBRARY_PATH=f"{BUILD}/.libs")
        command = [program("tests/storm/load_tool")]
        if self.sockets:
            command = [program("sovia/launcher/sovia"), "run", program("tests/storm/socket_load_tool")]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.lab.netns(self.host), *command, self.ledger.path, str(self.slot),
             *self.arguments], stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
            env=environment)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def counts(self):
        return self.ledger.slot(self.slot)


class Survivors:
    """Which connections of granted pairs, and of sockets on SOVIA, live through the deaths of agents. A pair counts
    when both of its ends have a connection, and have talked over it, since one of them was last killed."""

    def __init__(self, pairs):
        self.pairs = {n: pair for n, pair in enumerate(pairs) if pair[0].placement == "granted" or pair[0].sockets}
        self.survived = self.lost = 0
        self.pending = {}   # pair: failures of its ends before, deaths since
        self.new = {n: (0, 0) for n in self.pairs}    # pair: connections of its ends before
        self.talks = {}     # pair of `new` that has a connection: answers then

    def count(self, number, row):
        return tuple(worker.counts()[row] for worker in self.pairs[number])

    def look(self):
        for number, before in list(self.new.items()):
            now = self.count(number, "connections")
            if not all(a > b for a, b in zip(now, before)):
                continue
            answered = self.pairs[number][1].counts()["answered"]
            if answered > self.talks.setdefault(number, answered) + 16:
                del self.new[number], self.talks[number]

    def settle(self, number):
        if number not in self.pending:
            return
        failures, deaths = self.pending.pop(number)
        if self.count(number, "failures") == failures:
            self.survived += deaths
            return
        self.lost += 1
        server, asker = self.pairs[number]
        say(f"lost with an agent: {asker.arguments} from {asker.host} to {server.host}, slots {server.slot} and "
            f"{asker.slot}, before {time.monotonic():.3f}")

    def disturb(self, workers):
        """Before these are killed, or lose their sessions."""
        for number, pair in self.pairs.items():
            if pair[0] in workers or pair[1] in workers:
                self.settle(number)
                self.new[number] = self.count(number, "connections")
                self.talks.pop(number, None)

    def agent_dies(self, host):
        self.look()
        for number, pair in self.pairs.items():
            if number in self.new or host not in (pair[0].host, pair[1].host):
                continue
            failures, deaths = self.pending.get(number, (self.count(number, "failures"), 0))
            self.pending[number] = (failures, deaths + 1)

    def finish(self):
        for number in list(self.pending):
            self.settle(number)


def stacks(pid):
    """Of all threads of a process; in the kernel only, where there is no gdb."""
    if shutil.which("gdb"):
        return run("timeout", "60", "gdb", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace", check=False)
    try:
        with open(f"/proc/{pid}/stack") as file:
            return file.read()
    except OSError:
        return ""


def bpf_programs():
    """BPF programs in the system, or nothing where that can't be told."""
    text = run("bpftool", "prog", "list", check=False)
    return sum(1 for line in text.splitlines() if line[:1].isdigit())


def bpf_links():
    text = run("bpftool", "link", "list", check=False)
    return sum(1 for line in text.splitlines() if line[:1].isdigit())


def say(text):
    print(text)
    sys.stdout.flush()
