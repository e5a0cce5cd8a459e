# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Runs pairs of perftest programs on the device that `simhca run` gives, and reads their figures.

Started by scripts/bench: `pairs.py SIMHCA REFERENCE OUT [TEST...]` measures the tests with these indices
once, the short ones while the CPUs are near (near.py), and writes a list of values, null for what failed, to OUT as JSON.
"""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from near import Near
from table import TESTS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "clients"))
from listening import is_listened_on, new_port  # noqa: E402 (its place is known now)

PROGRAM_SECONDS = 60  # that one pair may take
SHORT = ("lat", "bw", "rate")  # kinds of tests that take less than a second
FEW, MANY = 1000, 31000  # messages: CPU time is that of the difference
IDLE_SECONDS = 2


def note(text):
    print(text, file=sys.stderr, flush=True)


class Pair:
    """A server that listens, and then a client; `output` is what the client printed."""

    def __init__(self, command, size):
        port = new_port()
        self.command = command.split() + ["-F", "-s", str(size), "-p", str(port)]
        self.log, self.printed = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.client = None
        self.deadline = time.monotonic() + PROGRAM_SECONDS
        self.server = self.start([], self.log)
        while not is_listened_on(port):
            if self.server.poll() is not None or time.monotonic() > self.deadline:
                self.end()
                raise RuntimeError("the server does not listen")
            time.sleep(0.02)

    def start(self, more, out):
        return subprocess.Popen(
            self.command + more, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )

    def connect(self):
        self.client = self.start(["localhost"], self.printed)

    def finish(self):
        try:
            self.client.wait(timeout=max(0, self.deadline - time.monotonic()))
            self.server.wait(timeout=5)
            if self.client.returncode or self.server.returncode:
                raise RuntimeError(self.text())
            return self.text()
        finally:
            self.end()

    def text(self):
        self.printed.seek(0)
        return self.printed.read().decode(errors="replace")

    def end(self):
        for process in (self.client, self.server):
            if process and process.poll() is None:
                process.kill()
                process.wait()


def figure(test, output):
    # column of perftest's table
    column = {"lat": 4, "bw": 3, "rate": 4}[test.kind]
    for line in reversed(output.splitlines()):
        fields = line.split()
        if len(fields) > column and fields[0] == str(test.size):
            return float(fields[column])
    raise RuntimeError(f"no result in:\n{output}")


def run(command, size, count=1):
    pairs = []
    try:
        for _ in range(count):
            pairs.append(Pair(command, size))
        for pair in pairs:
            pair.connect()
        return [pair.finish() for pair in pairs]
    finally:
        for pair in pairs:
            pair.end()


def daemon_ns(pid):
    """CPU time of the daemon, of its threads that live."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total


def children_ns():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def cpu(test, daemon):
    """us of CPU for a message: of all three processes, and the daemon's part."""
    used = {}
    for count in (FEW, MANY):
        begin = children_ns(), daemon_ns(daemon)
        run(f"{test.command} -n {count}", test.size)
        end = children_ns(), daemon_ns(daemon)
        used[count] = [after - before for before, after in zip(begin, end)]
    clients, device = (
        (many - few) / (MANY - FEW) / 1000 for few, many in zip(used[FEW], used[MANY])
    )
    return [clients + device, device]


def idle(test, daemon):
    pair = Pair(test.command, test.size)
    try:
        time.sleep(7)  # it looks at programs for some seconds after they have done something
        begin = daemon_ns(daemon)
        time.sleep(IDLE_SECONDS)
        return (daemon_ns(daemon) - begin) / IDLE_SECONDS / 1e9 * 100
    finally:
        pair.end()


def measure(test, daemon):
    try:
        if test.kind == "cpu":
            return cpu(test, daemon)
        if test.kind == "idle":
            return idle(test, daemon)
        command = test.command + (" --report_gbits" if test.kind != "lat" else "")
        return sum(figure(test, output) for output in run(command, test.size, test.pairs))
    except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        note(f"bench: {test.command}: {error}")
        return None


def main():
    simhca, reference, out, *indices = sys.argv[1:]
    status = subprocess.run([simhca, "status", "--json"], stdout=subprocess.PIPE, check=True)
    daemon = json.loads(status.stdout)["pid"]
    near = Near(reference)
    tests = [TESTS[int(index)] for index in indices]
    values = [near.measure(measure, test, daemon) if test.kind in SHORT else measure(test, daemon) for test in tests]
    pathlib.Path(out).write_text(json.dumps(values))


if __name__ == "__main__":
    main()
