# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
RoCE v2 between two network namespaces with a daemon each (mtu 9000, so a path MTU of 4096), beside
what UDP and TCP do across the same pair of interfaces, in turns; and over a wire that loses.
"""

import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

from table import Goal, limit, name_those_behind

HERE = pathlib.Path(__file__).resolve().parent
KIB, MIB = 1024, 1024 * 1024
SECONDS = 2  # of a program that runs for a while
ROUNDS = 3000
SENDS = 1000, 16000  # of 64 KiB
LOST = 10  # of 1000 packets
TICKS = os.sysconf("SC_CLK_TCK")

# What is measured, what it stands beside, and the ratio of both that it has to reach.
ROWS = [
    ("send latency, 8 B", "a datagram, one way", Goal("<=", 1.5, None)),
    ("write latency, 8 B", "a datagram, one way", Goal("<=", 1.5, None)),
    ("write bandwidth, 64 KiB", "TCP, 64 KiB", Goal(">=", 0.95, None)),
    ("write bandwidth, 1 MiB", "TCP, 1 MiB", Goal(">=", 0.95, None)),
    ("write bandwidth, 8 QPs, 64 KiB", "TCP, 8 connections, 64 KiB", Goal(">=", 0.9, None)),
    ("write bandwidth, 8 QPs, 1 MiB", "TCP, 8 connections, 1 MiB", Goal(">=", 0.9, None)),
    ("write bandwidth, 64 KiB, busy CPUs", "TCP, 64 KiB, busy CPUs", Goal(">=", 0.95, None)),
    ("write bandwidth, 8 QPs, 64 KiB, busy CPUs", "TCP, 8 connections, 64 KiB, busy CPUs", Goal(">=", 0.9, None)),
    ("write bandwidth, 64 KiB", "UDP by 4 KiB", Goal(">=", 1, None)),
    ("write bandwidth, 1 MiB", "UDP by 4 KiB", Goal(">=", 1, None)),
    ("CPU of 1 GB, sends, 64 KiB", "CPU of 1 GB, TCP, 64 KiB", Goal("<=", 1.8, None)),
    ("write bandwidth, 1 % lost", "write bandwidth, none lost", Goal(">=", 0.2, 0.5)),
]
BLOCKS = {"64 KiB": 64 * KIB, "1 MiB": MIB}
# How many at a time: as an option of perftest's, and of iperf3's.
FLOWS = {"": ((), ()), ", 8": (("-q", "8"), ("-P", "8"))}


def clients(tree):
    """The modules of tests/clients, for this build."""
    os.environ["SIMHCA_BUILD"] = str(tree)
    sys.path.insert(0, str(HERE.parent / "tests" / "clients"))
    import common
    import namespaces

    return common, namespaces


def cpu_of(pids):
    """Seconds of CPU that these processes have used, and the children that we have waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = ended.ru_utime + ended.ru_stime
    for pid in pids:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used += (int(stat[11]) + int(stat[12])) / TICKS
    return used


class Bench:
    """One pair of hosts."""

    def __init__(self, modules, hosts):
        self.common, self.namespaces = modules
        self.hosts = hosts

    def both(self, *argv):
        """A server on the second host, a client on the first: what the client has said."""
        port = self.common.new_port()
        server = self.hosts[1].start(*argv, "-p", port)
        self.common.wait_until(
            lambda: self.namespaces.listens(self.hosts[1], port) or not server.running, 30,
            f"{argv[0]} listens")
        client = self.hosts[0].start(*argv, "-p", port, self.namespaces.IPV4[1]).finish()
        self.common.expect_success(client)
        self.common.expect_success(server.finish())
        return client.stdout

    def perftest(self, program, size, column, *options):
        command = [program, "-F", "-x", self.namespaces.IPV4_GID, "-s", size, *options]
        lines = self.both(*command).splitlines()
        return next(float(line.split()[column]) for line in lines
                    if line.split() and line.split()[0] == str(size))

    def latency(self, program):
        return self.perftest(program, 8, 4, "-n", ROUNDS)

    def bandwidth(self, size, *options):
        """Gb/s"""
        return self.perftest("ib_write_bw", size, 3, "-D", SECONDS, "--report_gbits", *options)

    def cpu_of_sends(self, count):
        """Seconds of both daemons and both programs, which sleep on events."""
        pids = [host.pid for host in self.hosts]
        before = cpu_of(pids)
        lines = self.both("ib_send_bw", "-F", "-x", self.namespaces.IPV4_GID, "-s", 64 * KIB,
                          "-n", count, "-e").splitlines()
        assert any(line.split()[:1] == [str(64 * KIB)] for line in lines), lines
        return cpu_of(pids) - before

    def cpu_of_send(self):
        """
        Seconds for 1 GB: of a long run without those of a short one, as each perftest program first
        counts its CPU's cycles in a loop of some tenths of a second.
        """
        few, many = SENDS
        return ((self.cpu_of_sends(many) - self.cpu_of_sends(few)) /
                ((many - few) * 64 * KIB / 1e9))

    def datagrams(self, udp):
        port = self.common.new_port()
        server = self.hosts[1].start(udp, port)
        time.sleep(0.5)
        client = self.hosts[0].run(udp, port, self.namespaces.IPV4[1], ROUNDS)
        server.kill()
        return float(self.common.expect_success(client).stdout)

    def iperf3(self, *options):
        """Gb/s of what arrived, and seconds of CPU at both ends for 1 GB of it."""
        port = self.common.new_port()
        server = self.hosts[1].start("iperf3", "-s", "-1", "-p", port)
        self.common.wait_until(
            lambda: self.namespaces.listens(self.hosts[1], port) or not server.running, 30,
            "iperf3 listens")
        before = cpu_of([])
        client = self.hosts[0].run("iperf3", "-J", "-c", self.namespaces.IPV4[1], "-p", port,
                                   "-t", SECONDS, *options)
        server.finish()
        end = json.loads(self.common.expect_success(client).stdout)["end"]
        arrived = end["sum_received"]["bytes"] if "sum_received" in end else end["sum"]["bytes"]
        if "-u" in options:
            arrived *= 1 - end["sum"]["lost_percent"] / 100
        return arrived * 8 / SECONDS / 1e9, (cpu_of([]) - before) / (arrived / 1e9)


@contextlib.contextmanager
def busy_cpus():
    """Two processes that want a CPU each."""
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def beside_tcp(bench, found, sizes, suffix=""):
    """Writes, with iperf3 before each, by blocks of the same size."""
    for many, (qps, connections) in FLOWS.items():
        for size in sizes:
            block = BLOCKS[size]
            tcp = f"TCP{many and many + ' connections'}, {size}{suffix}"
            found[tcp], found[f"CPU of 1 GB, {tcp}"] = bench.iperf3("-l", block, *connections)
            found[f"write bandwidth{many and many + ' QPs'}, {size}{suffix}"] = bench.bandwidth(block, *qps)


def measure(modules, work):
    """{name: value}"""
    udp, found = os.path.join(work, "udp"), {}
    with modules[1].two_hosts(9000) as hosts:
        bench = Bench(modules, hosts)
        found["a datagram, one way"] = bench.datagrams(udp)
        found["send latency, 8 B"] = bench.latency("ib_send_lat")
        found["write latency, 8 B"] = bench.latency("ib_write_lat")
        beside_tcp(bench, found, BLOCKS)
        with busy_cpus():
            beside_tcp(bench, found, ["64 KiB"], ", busy CPUs")
        # 0: as fast as it goes
        found["UDP by 4 KiB"], _ = bench.iperf3("-u", "-b", "0", "-l", 4 * KIB)
        found["CPU of 1 GB, sends, 64 KiB"] = bench.cpu_of_send()
    for name, lose in ("none lost", 0), ("1 % lost", LOST):
        with two_hosts_that_lose(modules, os.path.join(work, "bad_wire"), lose) as hosts:
            found[f"write bandwidth, {name}"] = Bench(modules, hosts).bandwidth(64 * KIB)
    return found


@contextlib.contextmanager
def two_hosts_that_lose(modules, bad_wire, lose):
    """Of 1000 packets so many; tests/clients/bad_wire.c carries them."""
    common, namespaces = modules
    wires = []

    def join(first, second, name, mtu, addresses):
        wires.append(common.Program(
            [*namespaces.inside(first), bad_wire,
             *(f"/proc/{pid}/ns/net" for pid in (first, second)), name,
             random.randrange(1 << 32), f"lose={lose}"], common.clean_environment()))
        common.wait_until(lambda: wires[0].stdout or not wires[0].running, 30, "taps are there")
        namespaces.bring_up(first, second, name, mtu, addresses)

    try:
        with namespaces.two_hosts(1500, join=join) as hosts:
            yield hosts
    finally:
        for wire in wires:
            wire.kill()


def compile_c(work, source):
    program = os.path.join(work, pathlib.Path(source).stem)
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)


def figures(tree, work, runs):
    for program in "iperf3", "ib_write_bw", "ip", "unshare":
        if not shutil.which(program):
            sys.exit(f"bench: wire: {program} is missing: scripts/install-deps build demo bench")
    modules = clients(tree)
    compile_c(work, HERE / "udp.c")
    compile_c(work, HERE.parent / "tests" / "clients" / "bad_wire.c")
    each = [measure(modules, work) for _ in range(runs)]
    found = {name: statistics.median(one[name] for one in each) for name in each[0]}
    rows = [{"test": name, "value": found[name], "beside": other,
             "value_beside": found[other], "ratio": found[name] / found[other], "must": limit(goal, goal.must),
             "aim": limit(goal, goal.aim)} for name, other, goal in ROWS]
    return {"cpus": len(os.sched_getaffinity(0)), "runs": runs, "tests": rows}


def unit_of(row):
    return "us" if "latency" in row["test"] else "s" if row["test"].startswith("CPU") else "Gb/s"


def main(tree, work, runs, as_json):
    result = figures(tree, work, runs)
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    print("| | | beside it | | ratio | must | aim |")
    print("|---|---|---|---|---|---|---|")
    for row in result["tests"]:
        unit = unit_of(row)
        print(f"| {row['test']} | {row['value']:.3g} {unit} | {row['beside']} "
              f"| {row['value_beside']:.3g} {unit} | {row['ratio']:.2f} | {row['must']} | {row['aim']} |")
    name_those_behind((f"{row['test']}, of {row['beside']}", row["ratio"], goal)
                      for row, (_, _, goal) in zip(result["tests"], ROWS))
    return 0
