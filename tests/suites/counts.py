#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What a run of ctest has come to, in tests of suites and not of ctest:

    counts.py [--of PID] DIRECTORY SUITE...

DIRECTORY has what ctest says that it runs (tests.json), its reports, of the run (ctest.xml) and of what was repeated
(ctest-again-1.xml), and what parts have left (part.py). A part counts as the tests of its own report; what failed and
passed when it was repeated has passed, and is named. A report of a sanitizer is a failure whatever passed later, and
what cannot be built is one failure of each suite that needs it. A suite is compatibility: what scripts/compatibility and
scripts/releases say of the reports. Exit status 1 if something has failed.

What suites have cost is what their parts have written down (NAME.cost). With --of the rest of what a process has waited
for is told as others: C tests, and the build of the release tree.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
SUITE_OF = {"daemon": "unit"}  # labels that are no suite's name
SHOWN = [  # what is worth being seen of a part that has passed: its name, and from which line to which
    (r"hostile", r"\d+\.\d ms worst of", r"(?!.* ms worst of)", 5),
    (r"packages.*", r"packages  ", r"=", 100),
    (r"platforms.*", r"release  ", r"[-=]", 100),
    (r"(soak-)?rxe", r".* simhca is the client ", r"=", 100),
]


DEAREST = 12  # parts whose CPU time is told


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def outcome(case):
    """passed, failed, skipped, or unbuilt: what was not run as something that it needs has failed, or is not there."""
    status = case.get("status", "run")
    if status == "notrun":
        skipped = case.find("skipped")
        code = skipped is not None and skipped.get("message", "").startswith("SKIP_")
        return "skipped" if code else "unbuilt"
    if case.find("failure") is not None or case.find("error") is not None or status == "fail":
        return "failed"
    return "skipped" if case.find("skipped") is not None or status == "disabled" else "passed"


def cases(path):
    return list(tree.parse(path).getroot().iter("testcase")) if path.exists() else []


class Run:
    def __init__(self, directory, suites):
        self.directory = directory
        self.counts = {suite: Counts() for suite in suites}
        self.labels = {test["name"]: next((one["value"] for one in test["properties"] if one["name"] == "LABELS"), [])
                       for test in json.loads((directory / "tests.json").read_text())["tests"]}
        self.lines = []
        self.only_alone = 0
        self.unbuilt = collections.defaultdict(set)  # suite -> what it would have needed
        self.again = {case.get("name"): outcome(case) for case in cases(directory / "ctest-again-1.xml")}

    def suite(self, labels):
        return next((label for label in (SUITE_OF.get(label, label) for label in labels) if label in self.counts), None)

    def failed(self, name, counts, names, number):
        """What has failed in it has another chance behind it, or has not."""
        repeated = self.again.get(name) == "passed"
        for one in names:
            self.lines.append(f"beside others, but not alone: FAILED: {one}" if repeated else f"FAILED: {one}")
        if repeated:
            self.only_alone += number
            counts.passed += number
        else:
            counts.failed += number

    def add(self, name, suite, how, why):
        counts = self.counts[suite]
        reports = sorted(self.directory.glob(f"{name}.report.*"))
        for report in reports:
            self.lines.append(f"FAILED: {name}: a report of a sanitizer, {report.name}")
        counts.failed += len(reports)
        part = self.directory / f"{name}.xml"
        if how == "unbuilt":
            self.unbuilt[suite].add(why)
        elif not part.exists():
            if how == "failed":
                self.failed(name, counts, [name], 1)
            else:
                setattr(counts, how, getattr(counts, how) + 1)
        else:
            found = collections.Counter(map(outcome, cases(part)))
            counts.passed += found["passed"]
            counts.skipped += found["skipped"] + found["unbuilt"]
            if found["failed"]:
                self.failed(name, counts, [f"{name}: {one.get('classname')}::{one.get('name')}" for one in cases(part)
                                           if outcome(one) == "failed"], found["failed"])
            elif not sum(found.values()):
                counts.failed += 1
                self.lines.append(f"FAILED: {name}: no tests")
            elif how == "failed" and not reports:
                counts.failed += 1
                self.lines.append(f"FAILED: {name}: its end, see {name}.log")

    def add_all(self):
        ended = {case.get("name"): case for case in cases(self.directory / "ctest.xml")}
        for name in self.labels:
            suite = self.suite(self.labels[name])
            if name not in ended:
                if suite:
                    self.add(name, suite, "unbuilt", "the end of ctest")
                continue
            case = ended[name]
            if suite:
                self.add(name, suite, outcome(case), case.findtext("system-out", "").strip() or name)
            elif outcome(case) == "failed":
                self.lines.append(f"FAILED: {name}")
        if "compatibility" in self.counts:
            self.compare(self.counts["compatibility"])
        for suite, counts in self.counts.items():
            if self.unbuilt[suite]:
                counts.failed += 1
                self.lines += [f"FAILED: {suite} cannot be tested: {why}" for why in sorted(self.unbuilt[suite])]
            elif not counts.passed + counts.failed + counts.skipped:
                counts.failed += 1
                self.lines.append(f"FAILED: {suite}: no tests")

    def compare(self, counts):
        """What the documents say, with the reports."""
        for script in "compatibility", "releases":
            done = subprocess.run([SCRIPTS / script, "--reports"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            if done.returncode == 0:
                counts.passed += 1
            else:
                counts.failed += 1
                self.lines.append(f"FAILED: scripts/{script} --reports:\n{done.stdout.rstrip()}")

    def tables(self):
        for log in sorted(self.directory.glob("*.log")):
            for name, first, last, most in SHOWN:
                if re.fullmatch(name, log.stem) and (log.stem in self.ran()):
                    yield from between(log.read_text(errors="replace").splitlines(), first, last, most)

    def ran(self):
        return {case.get("name") for case in cases(self.directory / "ctest.xml")}

    def __str__(self):
        whole = Counts()
        for counts in self.counts.values():
            whole.passed += counts.passed
            whole.failed += counts.failed
            whole.skipped += counts.skipped
        lines = [*self.tables(), *self.lines, *(f"{suite}: {counts}" for suite, counts in self.counts.items())]
        if self.only_alone:
            lines.append(f"{self.only_alone} of those that passed failed at first, beside others, as said above")
        return "\n".join([*lines, str(whole)])


class Cost:
    """What something has used: CPU seconds of programs, and of the kernel for them, and page faults."""

    def __init__(self, user=0.0, system=0.0, faults=0):
        self.user, self.system, self.faults = float(user), float(system), int(faults)

    def __add__(self, other):
        return Cost(self.user + other.user, self.system + other.system, self.faults + other.faults)

    def __sub__(self, other):
        return Cost(self.user - other.user, self.system - other.system, self.faults - other.faults)

    @property
    def cpu(self):
        return self.user + self.system

    def __str__(self):
        return f"{self.cpu:7.0f} {self.system:7.0f} {self.faults / 1e6:7.1f}"


def cost_of_children(pid):
    """Of those that it has waited for, by proc(5)."""
    words = pathlib.Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return Cost(int(words[13]) / ticks, int(words[14]) / ticks, words[8])


def cost_of_part(directory, name):
    """With its repetitions; None of one that has not come to its end."""
    paths = [directory / f"{name}.cost", *directory.glob(f"{name}-again-*.cost")]
    return sum((Cost(*path.read_text().split()) for path in paths), Cost()) if paths[0].exists() else None


def costs(run, pid):
    """Lines of a table: suites, the rest of all, and the dearest parts."""
    of_parts = {name: cost for name in run.labels if (cost := cost_of_part(run.directory, name))}
    if not of_parts:
        return
    of_suites = collections.defaultdict(Cost)
    for name, cost in of_parts.items():
        of_suites[run.suite(run.labels[name]) or run.labels[name][0]] += cost
    whole = sum(of_parts.values(), Cost())
    if pid:
        parts, whole = whole, cost_of_children(pid)
        of_suites["others"] = whole - parts

    def dearest(costs_of):
        return [f"  {name:26}{cost}" for name, cost in sorted(costs_of.items(), key=lambda item: -item[1].cpu)]

    yield f"{'What suites have cost':28}{'CPU s':>7} {'kernel':>7} {'10^6 page faults':>7}"
    yield from dearest(of_suites)
    yield f"  {'all':26}{whole}"
    yield "and the dearest parts"
    yield from dearest(of_parts)[:DEAREST]


def between(lines, first, last, most):
    begun = False
    for line in lines:
        begun = begun or re.match(r"\s*" + first, line)
        if begun and (re.match(last, line) or most == 0):
            return
        if begun:
            most -= 1
            yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", metavar="PID", help="the process that has run all")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    options = parser.parse_args()
    run = Run(options.directory, options.suites)
    run.add_all()
    for line in costs(run, options.of):
        print(line)
    print(run)
    return 1 if any(counts.failed for counts in run.counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
