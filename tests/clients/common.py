# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A device for tests, the programs that run on it, and what they print."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import typing

from listening import is_listened_on, new_port, wait_command

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", HERE.parent.parent / "build")).resolve()
SIMHCA = BUILD / "bin" / "simhca"

NOBODY = 65534
CAP_NET_RAW = 13
AS_NOBODY = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
             "--no-new-privs", "--inh-caps=-all"]
TIME_LIMIT = 60  # seconds that a program may take which has no reason to wait
ENDING = 30  # seconds until a program notices that its peer or its device is gone


# ------------------------------------------------------------------------------ waiting


def wait_until(condition, seconds, what):
    """
    Polls condition() until it is true; what says what did not happen otherwise. Less often the longer it takes: many a
    condition is asked of a program, which costs more CPU time than what is waited for.
    """
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        assert waited < seconds, f"within {seconds} s: {what}"
        time.sleep(min(max(0.02, waited / 20), 0.1))


def process_state(pid):
    """The letter that proc(5) has for it; X if there is no such process."""
    try:
        stat = pathlib.Path("/proc", str(pid), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rsplit(")", 1)[1].split()[0]


def alive(pid):
    """Whether a process runs; one that nobody has waited for yet does not."""
    return process_state(pid) not in "ZX"


def stopped(pid):
    """Whether SIGSTOP has stopped it."""
    return process_state(pid) == "T"


# ----------------------------------------------------------------------------- programs


class Result(typing.NamedTuple):
    """How a program has ended."""

    argv: list
    status: int
    stdout: str
    stderr: str

    def __str__(self):
        return (f"{' '.join(map(str, self.argv))}\nstatus {self.status}\n"
                f"--- stdout\n{self.stdout}--- stderr\n{self.stderr}")


def text_of(file):
    """From its start, without moving the offset that the program writes at."""
    descriptor = file.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


class Program:
    """
    A program in a process group of its own. Its output goes to files, so that it never waits.
    """

    group_is_left = None  # whether anything was in its group when it had been waited for

    def __init__(self, argv, env):
        self.argv = [str(word) for word in argv]
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.argv, env=env, stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.err, process_group=0)
        self.pid = self.process.pid

    @property
    def stdout(self):
        return text_of(self.out)

    @property
    def stderr(self):
        return text_of(self.err)

    @property
    def running(self):
        if self.process.poll() is None:
            return True
        self.look_for_group()
        return False

    def look_for_group(self):
        """
        Once it has been waited for its number is that of its group, as long as anything in that runs, and then of
        another process.
        """
        if self.group_is_left is not None:
            return
        try:
            os.killpg(self.pid, 0)
            self.group_is_left = True
        except ProcessLookupError:
            self.group_is_left = False
        except PermissionError:  # it has become another user
            self.group_is_left = True

    def send(self, number):
        if self.running:
            self.process.send_signal(number)

    def result(self):
        return Result(self.argv, self.process.returncode, self.stdout, self.stderr)

    def finish(self, seconds=TIME_LIMIT):
        """Waits for its end."""
        try:
            self.process.wait(seconds)
            self.look_for_group()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still ran after {seconds} s: {self.result()}") from None
        return self.result()

    def kill(self):
        """Ends it with all that it has started in its group."""
        if self.running or self.group_is_left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self.group_is_left = False


def clean_environment():
    """Ours, without what would lead programs to another device."""
    dropped = ("IBV_DRIVERS", "RDMAV_DRIVERS", "LD_PRELOAD", "SIMHCA_RUNTIME_DIR")
    return {name: value for name, value in os.environ.items() if name not in dropped}


class Launcher:
    """Starts programs, and ends those that are left."""

    def __init__(self, prefix=(), env=None):
        self.prefix = list(prefix)
        self.env = clean_environment() if env is None else env
        self.programs = []

    def start(self, *argv, **env):
        program = Program([*self.prefix, *argv], self.env | env)
        self.programs.append(program)
        return program

    def run(self, *argv, seconds=TIME_LIMIT, **env):
        return self.start(*argv, **env).finish(seconds)

    def kill_programs(self):
        while self.programs:
            self.programs.pop().kill()


# ------------------------------------------------------------------------------- device


class Device(Launcher):
    """
    A daemon with one runtime directory. Programs get their environment from `simhca env` and
    run directly below the test, so that a signal hits them and nothing else. prefix is a
    command under which everything runs, the daemon as well.
    """

    def __init__(self, link_layer, *options, prefix=(), owner=None):
        super().__init__(prefix)
        self.link_layer = link_layer
        self.options = [f"--link-layer={link_layer}", *options]
        if link_layer != "ethernet":  # so that both ways of carrying messages are tried
            self.options[1:1] = ["--daemon-option", "fast-path=off"]
        # Not below the tests' own directory: the address of a socket is short.
        self.directory = tempfile.mkdtemp(prefix="simhca-")
        self.owner = owner
        self.give(self.directory)
        self.tool = Launcher(prefix, self.env | {"SIMHCA_RUNTIME_DIR": self.directory})

    def __enter__(self):
        try:
            self.start_daemon()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        self.kill_programs()
        try:
            self.tool.run(SIMHCA, "stop")
        finally:
            self.tool.kill_programs()
            shutil.rmtree(self.directory, ignore_errors=True)

    def give(self, path):
        """To whoever the programs run as."""
        if self.owner is not None:
            os.chown(path, self.owner, self.owner)

    def new_directory(self):
        """One that the programs may write to."""
        path = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        self.give(path)
        return path

    def start_daemon(self):
        expect_success(self.tool.run(SIMHCA, "start", *self.options))
        variables = self.tool.run(SIMHCA, "env", "--format", "json")
        expect_success(variables)
        self.env |= json.loads(variables.stdout)

    def status(self):
        result = self.tool.run(SIMHCA, "status", "--json")
        expect_success(result)
        return json.loads(result.stdout)

    @property
    def pid(self):
        """As its file says, without a program that asks for it."""
        return int(pathlib.Path(self.directory, "pid").read_text())

    def objects(self):
        """How many verbs objects of each kind are alive, and how many contexts."""
        total = {}
        for device in self.status()["devices"]:
            for kind, count in [*device["counts"].items(), ("contexts", device["contexts"])]:
                total[kind] = total.get(kind, 0) + count
        return total

    def expect_objects(self, expected):
        """Kinds that it does not name there are none of. The daemon learns of a program's end a moment after we do."""
        seen = {}

        def same():
            seen.clear()
            seen.update(self.objects())
            return seen == dict.fromkeys(seen, 0) | expected

        try:
            wait_until(same, 10, "objects")
        except AssertionError:
            raise AssertionError(f"objects left: {seen}, expected {expected}; daemon's log:\n"
                                 f"{self.log()}") from None

    def expect_idle(self):
        """No object is left of the programs that have run."""
        self.expect_objects({})

    def log(self):
        log = pathlib.Path(self.directory, "simhcad.log")
        return log.read_text(errors="replace") if log.exists() else ""


def has_net_raw():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) >> CAP_NET_RAW & 1


def device_of_nobody(link_layer):
    """All of it as nobody: the daemon, the tool and the programs. For others: as themselves."""
    if os.geteuid():
        return Device(link_layer)
    return Device(link_layer, prefix=AS_NOBODY, owner=NOBODY)


# -------------------------------------------------------------------------------- pairs


def start_server(launcher, *argv):
    """A server that listens, and its port."""
    port = new_port()
    server = launcher.start(*argv, "-p", port)
    wait_until(lambda: is_listened_on(port) or not server.running, TIME_LIMIT, f"{argv} listens")
    assert server.running, server.result()
    return server, port


def start_pair(launcher, *argv):
    """A server and its client."""
    server, port = start_server(launcher, *argv)
    return server, launcher.start(*argv, "-p", port, "localhost")


def cpu_ticks(pid):
    """Hundredths of a second that a process has used."""
    stat = pathlib.Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()
    return int(stat[11]) + int(stat[12])


def wake_ups(pids):
    return [path.read_text().split("ctxt_switches:")[1:]
            for pid in pids for path in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*/status"))]


def sleeps_through(pids, seconds=3):
    """Whether no thread of these processes wakes up, or does anything, for so long."""
    before = wake_ups(pids), sum(map(cpu_ticks, pids))
    time.sleep(seconds)
    return before == (wake_ups(pids), sum(map(cpu_ticks, pids)))


def waits(pid):
    """How often a process has gone to sleep: for one that waits for events, once a message."""
    status = pathlib.Path("/proc", str(pid), "status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])


def start_working(device, *argv):
    """A pair in the middle of its work: since all of its QPs are connected it has computed, or waited often."""
    pair = start_pair(device, *argv)

    def connected(program):
        qps = json.loads(expect_success(device.run(SIMHCA, "qp", "--json", "--pid", program.pid)).stdout)
        return qps and all(qp["state"] in ("RTR", "RTS") for qp in qps)

    # A server that still accepts would wait for a client that has failed.
    wait_until(lambda: not all(program.running for program in pair) or all(map(connected, pair)), TIME_LIMIT,
               "all of its QPs are connected")

    def so_far(measure):
        return sum(measure(program.pid) for program in pair)

    enough_ticks = so_far(cpu_ticks) + random.randint(10, 40)
    enough_waits = so_far(waits) + random.randint(100, 1000)
    wait_until(lambda: not all(program.running for program in pair) or
               so_far(cpu_ticks) > enough_ticks or so_far(waits) > enough_waits,
               TIME_LIMIT, "data move")
    assert all(program.running for program in pair), [str(program.result()) for program in pair]
    return pair


CLOCK_NOT_MEASURED = "Correlation coefficient r^2"


def measured(run):
    """
    run()'s results, once perftest could measure the clock of the CPU, with which it begins. On a busy
    machine it says at times that it could not, and has no figures then.
    """
    for _ in range(5):
        results = run()
        if not any(CLOCK_NOT_MEASURED in result.stderr for result in results):
            break
    return results


def run_pair(launcher, *argv, seconds=TIME_LIMIT):
    """A server and its client until their ends; what they have printed, client first."""
    return measured(lambda: run_pair_once(launcher, argv, seconds))


def run_pair_once(launcher, argv, seconds):
    server, client = start_pair(launcher, *argv)
    try:
        wait_until(lambda: not client.running and not server.running, seconds, "both end")
    except AssertionError:
        for program in client, server:
            program.kill()
        raise AssertionError(f"still ran after {seconds} s, or one of them:\n{client.result()}"
                             f"\n{server.result()}") from None
    return client.result(), server.result()


def pair_script(*argv):
    """A shell command that runs a server, and its client as soon as the server listens."""
    port = new_port()
    command = " ".join(map(str, [*argv, "-p", port]))
    return (f"{command} & server=$!; {wait_command(port)}; "
            f"{command} localhost; client=$?; wait $server && exit $client")


def expect_success(result):
    assert result.status == 0, str(result)
    return result


# ------------------------------------------------------------------ what programs print


def output(device, *argv):
    result = expect_success(device.run(*argv))
    assert result.stderr == "", result
    return result.stdout


def fields(text):
    """{name: value} of lines like `name: value`; the first of a name counts."""
    found = {}
    for name, value in re.findall(r"^\s*([^:\n]+):[ \t]+(\S.*)$", text, re.M):
        found.setdefault(name, value)
    return found


def blocks(text):
    """The stories of `simhca explain`, each as its lines."""
    return [block.splitlines() for block in text.strip().split("\n\n")]


# ----------------------------------------------------------------------------- pingpong


def gid(link_layer):
    """RoCE has no LIDs: the pingpong programs need a GID there."""
    return ["-g", 0] if link_layer == "ethernet" else []


def bandwidth_lines(text):
    return re.findall(r"^(\d+) bytes in [\d.]+ seconds = [\d.]+ Mbit/sec$", text, re.M)


def expect_pingpong(result, size, iters):
    """It ended well, has moved all messages, and found no page with other data."""
    expect_success(result)
    assert bandwidth_lines(result.stdout) == [str(2 * size * iters)], result
    assert f"\n{iters} iters in " in result.stdout, result
    assert "invalid data" not in result.stdout, result
    assert result.stderr == "", result


def pingpong(device, program="ibv_rc_pingpong", *flags, size=4096, iters=1000,
             seconds=TIME_LIMIT):
    """Runs both sides of one of the pingpong programs, and checks what they print."""
    for result in run_pair(device, program, *gid(device.link_layer), "-s", size, "-n", iters,
                           *flags, seconds=seconds):
        expect_pingpong(result, size, iters)


# ----------------------------------------------------------------------------- perftest


def table(result):
    """The rows of numbers below the heading that begins with #bytes."""
    _, _, rows = result.stdout.partition("#bytes")
    # perftest's standard deviation is not a number where messages differ by more than 46 ms.
    rows = re.match(r".*\n((?: *(?:[\d. \t]|-nan)+\n)*)-{10}", rows)
    assert rows, f"no complete table: {result}"
    return [[float(number) for number in row.split()] for row in rows[1].splitlines()]


def expect_bandwidths(result, sizes, iters):
    """bytes, iterations, peak, average MB/s, millions of messages/s for each size."""
    rows = table(result)
    assert [row[0] for row in rows] == sizes, result
    for size, row_iters, peak, average, rate in rows:
        assert row_iters == iters and rate > 0, result
        # A small message in a slow moment is less than the two digits that the average has.
        assert abs(average - rate * 1e6 * size / 2**20) <= 0.01 + 0.05 * average, result
        assert peak >= average or peak == 0, result


def expect_latencies(result, sizes, iters):
    """bytes, iterations, min, max, typical, average .. in us for each size."""
    rows = table(result)
    assert [row[0] for row in rows] == sizes, result
    for _, row_iters, least, most, typical, average, *_ in rows:
        assert row_iters == iters, result
        assert 0 < least <= typical <= most and least <= average <= most, result
