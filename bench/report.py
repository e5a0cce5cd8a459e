# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Documentation/performance.md: the figures of one run of everything that scripts/bench measures, which bench/report.json keeps."""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess

from table import KIB, GOALS, REFERENCES, limit
from wire import unit_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAVED = ROOT / "bench" / "report.json"
PAGE = ROOT / "Documentation" / "performance.md"

HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB -->
<!-- scripts/bench --report writes this page from bench/report.json; scripts/check-docs compares them. -->
# Performance

How fast simhca is, beside what the same machine does without it, in the same run. **Compare ratios, not figures**: on another
machine, or beside other load, the figures are others, and the ratios nearly the same. [Where the time goes](where-time-goes.md)
says what each of them is made of.

<!-- not run: it measures for half an hour -->
```console
$ scripts/bench --report
```

measures all of it again, on an otherwise quiet machine, and writes this page. *Must* is what a change may not fall behind, *aim*
what is worth work; where both are empty nothing is promised.

"""
MESSAGES = """## Messages

Debian's perftest, both ends on this machine. *Fast path*: programs carry their messages by themselves, as they do by default. *Daemon*: with
`--fast-path off`, or where programs may not write to each other's memory. Latency is one way; a rate is in millions of messages in a
second. A hypervisor moves the CPUs of its machines, and a cache line takes several times as long between some of them: what takes less than a
second is measured while they share a cache, as far as they do within a minute.

"""
REFERENCE = """## What they are compared with

The same work without simhca, in the same run. A process that has something of another's memory needs one system call at least;
two that share memory need none.

"""
WIRE = """## Between hosts

`--wire roce`, two network namespaces joined by a pair of interfaces (mtu 9000), a daemon in each. Beside it is what UDP and TCP do
across the same pair, TCP by blocks as long as the messages (iperf3). *Busy CPUs*: two processes that compute want the CPUs as well. CPU
is that of both ends, programs and daemons.

"""
EFA = """## EFA

`fi_pingpong -e rdm` by libfabric's provider `efa` over [`--model efa`](efa.md), both ends on this machine and without its shared memory; beside
it is the same program over a device of verbs (`verbs;ofi_rxm`), and over TCP (`tcp;ofi_rxm`). EFA's messages go by the daemon, which
doorbells that are plain stores do not wake while it looks for them.

"""
WHERE = """## Step by step

One message of a program that sends to itself by the daemon, in microseconds; the program and the daemon have a CPU each. What the
columns are is in [where the time goes](where-time-goes.md#a-message-by-the-daemon).

"""
COMMANDS = """## Commands

A program makes and destroys 4,000 of each; us for one.

"""
THREADS = """## Many threads

Each has a CQ and two QPs that are connected to each other, and reads and polls by itself: how many reads the slowest one makes, as a
part of the mean.

"""
MAPPED = """## Regions that both map

Writes from one program to another: between private memory, from private memory to a region of a memfd that cannot shrink
([where the time goes](where-time-goes.md#memory-that-both-map)), and where both ends are such. Of 2 bytes it is the time one way, beside that of a
plain store to shared memory; of many, that of one, and the ratio is the part of a bandwidth.

"""
ODP = """## On-demand paging

One RDMA write of 8 bytes, by the daemon.

"""


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() if done.returncode == 0 else ""


def machine():
    """What the figures depend on, but for the load."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)", cpuinfo, re.M)
    release = pathlib.Path("/etc/os-release").read_text()
    return {
        "model": model[1] if model else platform.machine(),
        "virtual": bool(re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.M)),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / KIB**3:.0f} GiB",
        "kernel": f"Linux {platform.release()}",
        "system": re.search(r'^PRETTY_NAME="(.*)"', release, re.M)[1],
        "rdma-core": command("pkg-config", "--modversion", "libibverbs").split(".")[-2:-1],
        "commit": command("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "date": datetime.date.today().isoformat(),
    }


def number(value):
    if value is None:
        return "-"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(line.replace("| --- ", "|---").replace("---|---", "---|---") for line in lines).replace("|--- |", "|---|") + "\n\n"


def described(about, load):
    text = about["model"] + (", a virtual machine" if about["virtual"] else "")
    text += f", {about['cpus']} CPUs" + (f", {about['memory']}" if about.get("memory") else "")
    core = "".join(about.get("rdma-core") or [])
    words = [about["kernel"], about.get("system"), core and f"rdma-core {core}", about.get("commit") and f"simhca at {about['commit']}"]
    text += "; " + ", ".join(filter(None, words)) + f"; {about['date']}."
    if load:
        text += f" The load average was {load[0]:.1f} when it began and {load[1]:.1f} when it ended."
    return text


def reference(name):
    what, _, size = name.rpartition("_")
    return f"{REFERENCES[what]}, {size} B" if what in REFERENCES else REFERENCES[name]


def of_messages(result):
    ways = [way["name"] for way in result["ways"]]
    on, off = ways.index("fast path on"), ways.index("fast path off")
    rows = []
    for test in result["tests"]:
        fast, slow = test["results"][on], test["results"][off]
        if fast["value"] is None and slow["value"] is None:
            continue
        goal = GOALS.get(test["test"])
        # A goal is a ratio where there is something to compare with, and figure where there is not.
        beside = "" if not test["ratio_to"] else " and ".join(number(r["ratio"]) for r in (fast, slow)) + f" of {reference(test['ratio_to'])}"
        must, aim = (limit(goal, value) for value in ((goal.must, goal.aim) if goal else (None, None)))
        rows.append([test["test"], f"{number(fast['value'])} {test['unit']}", f"{number(slow['value'])} {test['unit']}", beside, must, aim])
    text = MESSAGES + table(["perftest", "fast path", "daemon", "beside: fast path and daemon", "must", "aim"], rows)
    text += REFERENCE + table(["without simhca", "us"], [[reference(name), number(value)] for name, value in result["references"].items()
                                                        if value is not None])
    return text


def of_wire(result):
    return WIRE + table(["", "", "beside it", "", "ratio", "must", "aim"], [
        [row["test"], f"{number(row['value'])} {unit_of(row)}", row["beside"], f"{number(row['value_beside'])} {unit_of(row)}",
         number(row["ratio"]), row.get("must") or "", row.get("aim") or ""] for row in result["tests"]])


def of_efa(result):
    rows = [[f"a message of {row['test']}", *(f"{number(row['us'][way])} us" for way in ("efa", "verbs", "tcp")),
             number(row["ratios"]["verbs"]), number(row["ratios"]["tcp"])] for row in result["tests"]]
    return EFA + table(["one way", "efa", "verbs", "tcp", "efa, of verbs", "of tcp"], rows) + \
        f"While a program sleeps for an event, it and the daemon use {number(result['idle_percent'])} % of a CPU.\n\n"


def of_where(result):
    columns = list(next(iter(result["us"].values())))
    return WHERE + table(["us", *columns], [[name, *(f"{value:.2f}" for value in us.values())] for name, us in result["us"].items()]) + \
        f"A hand-over from CPU to CPU takes {result['hand_over']:.2f} us.\n\n"


def of_odp(result):
    return ODP + table(["", "us", "ratio"], [[row["test"], number(row["value"]), f"{number(row['ratio'])} of {row['ratio_to']}"]
                                            for row in result["tests"]])


def of_commands(result):
    return COMMANDS + table(["", "us", "must", "aim"], [
        [row["test"], number(row["value"]), f"<= {row['must']:g}", f"<= {row['aim']:g}"] for row in result["tests"]])


def of_threads(result):
    return THREADS + table(["", "the slowest, of the mean", "reads/s", "longest read, ms", "must", "aim"], [
        [row["test"], number(row["value"]), number(row["rate"]), number(row["longest_ms"]), f">= {row['must']:g}", f">= {row['aim']:g}"]
        for row in result["tests"]])


def of_mapped(result):
    return MAPPED + table(["", "us", "ratio", "must", "aim"], [
        [row["test"], number(row["us"]), f"{number(row['value'])} of {row['to']}", row["must"], row["aim"]] for row in result["tests"]])


PARTS = {"messages": of_messages, "commands": of_commands, "threads": of_threads, "mapped": of_mapped, "wire": of_wire, "efa": of_efa,
         "where": of_where, "odp": of_odp}


def page(report):
    text = HEAD
    for name, of_part in PARTS.items():
        part = report.get(name)
        if part:
            about = f"{described(part['machine'], part.get('load'))}"
            runs = part.get("runs")
            text += of_part(part) + (f"Medians of {runs} runs. " if runs and runs > 1 else "") + about + "\n\n"
    return text.rstrip("\n") + "\n"


def measured(about, measure):
    """What measure() returns, with the machine and its load."""
    before = os.getloadavg()[0]
    return {"machine": about} | measure() | {"load": [before, os.getloadavg()[0]]}


def write(report):
    SAVED.write_text(json.dumps(report, indent=1) + "\n")
    PAGE.write_text(page(report))


def check():
    """What is wrong with the page."""
    if PAGE.read_text() == page(json.loads(SAVED.read_text())):
        return []
    return ["Documentation/performance.md is not what scripts/bench --report writes from bench/report.json; "
            "`scripts/bench --report --from bench/report.json` writes it anew"]
