# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What scripts/bench measures: Debian's perftest, and what each figure is compared with."""

import collections

KIB, MIB = 1024, 1024 * 1024

# What is read of the program: lat: us, one way; bw: Gb/s; rate: million messages/s; cpu: us of CPU
# for a message, of which the daemon's; idle: percent of a CPU. `reference` is a name of
# references.py, `pairs` how many run at once, whose figures are added up.
Test = collections.namedtuple("Test", "kind title size command reference pairs", defaults=[1])


def tests():
    for size in (2, 64, 4 * KIB):
        # 8 bytes is the least that is measured without simhca
        at = max(size, 8)
        yield Test("lat", "send", size, "ib_send_lat -n 20000", f"ucx_am_{at}")
        yield Test("lat", "write", size, "ib_write_lat -n 20000", f"mem_write_{at}")
        yield Test("lat", "read", size, "ib_read_lat -n 20000", f"mem_read_{at}")
    yield Test("lat", "send, SRQ", 2, "ib_send_lat -n 20000 --use-srq", "ucx_am_8")
    yield Test("lat", "send, UD", 2, "ib_send_lat -n 20000 -c UD", "mem_write_8")
    for verb in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        name = verb.lower().replace("_", " ")
        yield Test("lat", name, 8, f"ib_atomic_lat -n 20000 -A {verb}", "mem_read_8")
    yield Test("lat", "send, sleeping on events", 2, "ib_send_lat -n 20000 -e", "pipe")
    for size, count in ((4 * KIB, 200000), (64 * KIB, 50000), (MIB, 5000)):
        yield Test("bw", "write", size, f"ib_write_bw -n {count}", f"vm_write_{size}")
        yield Test("bw", "read", size, f"ib_read_bw -n {count}", f"vm_read_{size}")
        yield Test("bw", "send", size, f"ib_send_bw -n {count}", f"vm_write_{size}")
    for verb in ("write", "read", "send"):
        command = f"ib_{verb}_bw -b -n 50000"
        yield Test("bw", f"{verb}, both ways", 64 * KIB, command, f"vm_write_{64 * KIB}")
    for verb in ("write", "read", "send"):
        yield Test("rate", verb, 2, f"ib_{verb}_bw -n 200000", "futex")
    yield Test("rate", "send, SRQ", 2, "ib_send_bw -n 200000 --use-srq", "futex")
    yield Test("rate", "send, UD", 2, "ib_send_bw -n 200000 -c UD", "futex")
    for verb in ("write", "send"):
        command = f"ib_{verb}_bw -n 20000 -q 16"
        yield Test("rate", f"{verb}, 16 QPs", 2, command, "futex")
        command = f"ib_{verb}_bw -n 200000 -l 32"
        yield Test("rate", f"{verb}, lists of 32", 2, command, "futex")
    for pairs in (2, 4, 8):
        command = "ib_write_bw -n 200000"
        yield Test("rate", f"write, {pairs} pairs", 2, command, "futex", pairs)
    yield Test("cpu", "send", 2, "ib_send_bw", "vm_write_8")
    yield Test("cpu", "write", 64 * KIB, "ib_write_bw", f"vm_write_{64 * KIB}")
    yield Test("idle", "a program sleeps", 2, "ib_send_bw -e", None)


TESTS = list(tests())
UNITS = {"lat": "us", "bw": "Gb/s", "rate": "M/s", "cpu": "us", "idle": "%"}
REFERENCES = {
    "memcpy": "memcpy()",
    "vm_write": "process_vm_writev()",
    "vm_read": "process_vm_readv()",
    "mem_write": "pwrite() on /proc/PID/mem",
    "mem_read": "pread() on /proc/PID/mem",
    "futex": "waking who sleeps on a futex",
    "pipe": "waking who sleeps in a pipe",
    "tcp": "TCP, both ends polling",
    "line": "a cache line from CPU to CPU",
    "ucx_am": "UCX posix, active message",
    "ucx_put": "UCX posix, put",
    "ucx_cma": "UCX cma, put",
}


# What the fast path has to reach, by the test's title: as a ratio to its reference, or, with a unit, as it is.
Goal = collections.namedtuple("Goal", "sign must aim unit", defaults=[""])
GOALS = {
    "latency: send, 2 B": Goal("<=", 6, 3),
    "latency: send, 64 B": Goal("<=", 6, 3),
    "latency: write, 2 B": Goal("<=", 2, 1.2),
    "latency: write, 64 B": Goal("<=", 2, 1.2),
    "latency: read, 2 B": Goal("<=", 2, 1.2),
    "latency: read, 64 B": Goal("<=", 2, 1.2),
    "latency: send, SRQ, 2 B": Goal("<=", 6, 3),
    "latency: send, UD, 2 B": Goal("<=", 1, 0.5),
    "latency: send, sleeping on events, 2 B": Goal("<=", 1.3, 1.1),
    # of a pread: 1.3 times that and a pwrite
    "latency: fetch and add, 8 B": Goal("<=", 2.6, 2),
    "latency: cmp and swap, 8 B": Goal("<=", 2.6, 2),
    "bandwidth: write, 64 KiB": Goal(">=", 0.9, 0.97),
    "bandwidth: write, 1 MiB": Goal(">=", 0.9, 0.97),
    "rate: send, 2 B": Goal(">=", 2, 5, " M/s"),
    "rate: send, SRQ, 2 B": Goal(">=", 2, 5, " M/s"),
    "rate: send, UD, 2 B": Goal(">=", 1.5, 3, " M/s"),
    "rate: send, 16 QPs, 2 B": Goal(">=", 2, 5, " M/s"),
    "rate: write, lists of 32, 2 B": Goal(">=", 1.5, 2.3, " M/s"),
    "idle CPU: a program sleeps, 2 B": Goal("<=", 0, None, " %"),
}


# us for one, of bench/commands.c: its name, what it is called, and what it has to reach.
COMMANDS = [
    ("create_ah", "create an address handle", Goal("<=", 25, 15, " us")),
    ("destroy_ah", "destroy an address handle", Goal("<=", 25, 15, " us")),
    ("create_qp", "create a QP", Goal("<=", 80, 40, " us")),
    ("destroy_qp", "destroy a QP", Goal("<=", 80, 40, " us")),
]


# Of bench/threads.c: what part of the mean the slowest thread gets.
Threads = collections.namedtuple("Threads", "name fast_path threads seconds goal")
THREADS = [
    Threads("84 threads", "on", 84, 3, Goal(">=", 0.1, 0.5)),
    Threads("256 threads", "on", 256, 3, Goal(">=", 0.1, 0.5)),
    Threads("256 threads, fast path off", "off", 256, 3, Goal(">=", 0.1, 0.5)),
]


# Of bench/mapped.c: us for one, and how often the time of another, or which part of its bandwidth (>=).
Mapped = collections.namedtuple("Mapped", "title name reference goal")
MAPPED = [Mapped("a store to memory that both map", "stores", "ucx_put_8", None),
          Mapped("write, 2 B, all private", "latency_private", "ucx_put_8", None),
          Mapped("write, 2 B, to a file", "latency_target", "ucx_put_8", None),
          Mapped("write, 2 B, both in files", "latency_both", "ucx_put_8", Goal("<=", 1.5, 1.2)),
          Mapped("write, 2 B, --shared-memory on", "latency_shared", "ucx_put_8", Goal("<=", 1.5, 1.2)),
          Mapped("write, 2 B, likewise in /dev/shm", "latency_there", "ucx_put_8", Goal("<=", 1.5, 1.2)),
          Mapped("fetch and add, all private", "add_private", "ucx_put_8", None),
          Mapped("fetch and add, to a file", "add_target", "ucx_put_8", None),
          Mapped("fetch and add, --shared-memory on", "add_shared", "ucx_put_8", None),
          Mapped("fetch and add, likewise in /dev/shm", "add_there", "ucx_put_8", None)]
for size, words in ((2, "2 B"), (4 * KIB, "4 KiB"), (64 * KIB, "64 KiB"), (MIB, "1 MiB")):
    MAPPED += [Mapped(f"many writes, {words}, all private", f"write_private_{size}", f"vm_write_{size}", None),
               Mapped(f"many writes, {words}, to a file", f"write_target_{size}", f"memcpy_{size}", None),
               Mapped(f"many writes, {words}, both in files", f"write_both_{size}", f"memcpy_{size}",
                      Goal(">=", 0.9, 0.97) if size > 4 * KIB else None),
               Mapped(f"many writes, {words}, --shared-memory on", f"write_shared_{size}", f"memcpy_{size}",
                      Goal(">=", 0.9, 0.97) if size > 4 * KIB else None),
               Mapped(f"many writes, {words}, likewise in /dev/shm", f"write_there_{size}", f"memcpy_{size}",
                      Goal(">=", 0.9, 0.97) if size > 4 * KIB else None)]


def behind(goal, value):
    """Whether it does not reach what it must. What could not be measured is told of elsewhere."""
    if goal is None or value is None:
        return False
    return value > goal.must if goal.sign == "<=" else value < goal.must


def text(number):
    return "-" if number is None else f"{number:.3g}" if number < 100 else f"{number:.0f}"


def limit(goal, value):
    """A goal's must or aim, as it is printed; "": there is none."""
    return f"{goal.sign} {value:g}{goal.unit}" if goal and value is not None else ""


def name_those_behind(rows):
    """rows: of a title, a value, and its goal."""
    for name, value, goal in rows:
        if behind(goal, value):
            print(f"behind: {name}: {text(value)}{goal.unit}, must be {limit(goal, goal.must)}")


def title(test):
    size = test.size
    if size >= MIB:
        size = f"{size // MIB} MiB"
    elif size >= KIB:
        size = f"{size // KIB} KiB"
    else:
        size = f"{size} B"
    what = {"lat": "latency", "bw": "bandwidth", "rate": "rate", "cpu": "CPU", "idle": "idle CPU"}
    return f"{what[test.kind]}: {test.title}, {size}"


def ratio(test, value, reference):
    """reference: us for one of it. How often its time, or which part of its bandwidth."""
    if value is None or not reference:
        return None
    if test.kind == "bw":
        return value / (test.size * 8 / reference / 1000)
    if test.kind == "rate":
        return value * reference
    return value / reference
