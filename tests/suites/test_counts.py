# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""counts.py, with reports that are made up."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = {"passed": "", "failed": "<failure/>", "skipped": "<skipped message=''/>"}


class Run:
    """tests: what ctest ran, as NAME=RESULT of SUITE; parts: what they have reported."""

    def __init__(self, directory):
        self.directory = directory
        self.tests = []

    def ctest(self, name, suite, status, inside="", again=None):
        self.tests.append((name, suite, status, inside, again))

    def part(self, name, **counts):
        body = "".join(f"<testcase classname='tests.test_x' name='{result}_{number}'>{RESULTS[result]}</testcase>"
                       for result, count in counts.items() for number in range(count))
        (self.directory / f"{name}.xml").write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")

    def report(self, name, cases):
        body = "".join(f"<testcase name='{test}' status='{status}'>{inside}</testcase>" for test, status, inside in cases)
        (self.directory / name).write_text(f"<testsuite>{body}</testsuite>")

    def __call__(self, *suites, options=()):
        tests = [{"name": name, "properties": [{"name": "LABELS", "value": [suite]}]} for name, suite, *_ in self.tests]
        (self.directory / "tests.json").write_text(json.dumps({"tests": tests}))
        self.report("ctest.xml", [(name, status, inside) for name, _, status, inside, _ in self.tests])
        self.report("ctest-again-1.xml", [(name, again, "<failure/>" if again == "fail" else "")
                                          for name, *_, again in self.tests if again])
        done = subprocess.run([sys.executable, HERE / "counts.py", *options, self.directory, *suites],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_counts(run):
    """A C test is one, a part as many as its report has; each suite has its line, and all have one."""
    run.ctest("test_rnr", "unit", "run")
    run.ctest("daemon_process", "daemon", "run")
    run.ctest("test_x", "unit", "notrun", "<skipped message='SKIP_RETURN_CODE=77'/>")
    run.ctest("python", "python", "run")
    run.part("python", passed=5, skipped=2)
    assert run("unit", "python") == (0, ["unit: 2 passed, 0 failed, 1 skipped", "python: 5 passed, 0 failed, 2 skipped",
                                         "7 passed, 0 failed, 3 skipped"])


def test_what_passes_alone_is_named(run):
    run.ctest("test_rnr", "unit", "fail", "<failure/>", again="run")
    run.ctest("python", "python", "fail", "<failure/>", again="run")
    run.part("python", passed=5, failed=2)
    assert run("unit", "python") == (0, [
        "beside others, but not alone: FAILED: test_rnr",
        "beside others, but not alone: FAILED: python: tests.test_x::failed_0",
        "beside others, but not alone: FAILED: python: tests.test_x::failed_1",
        "unit: 1 passed, 0 failed, 0 skipped", "python: 7 passed, 0 failed, 0 skipped",
        "3 of those that passed failed at first, beside others, as said above", "8 passed, 0 failed, 0 skipped"])


def test_what_fails_alone_has_failed(run):
    run.ctest("python", "python", "fail", "<failure/>", again="fail")
    run.part("python", passed=5, failed=1)
    assert run("python") == (1, ["FAILED: python: tests.test_x::failed_0", "python: 5 passed, 1 failed, 0 skipped",
                                 "5 passed, 1 failed, 0 skipped"])


def test_a_report_is_a_failure_whatever_passes(run):
    run.ctest("asan-python", "sanitize", "fail", "<failure/>", again="run")
    run.part("asan-python", passed=5, failed=1)
    (run.directory / "asan-python.report.asan-python.asan.7").write_text("==7==")
    status, lines = run("sanitize")
    assert status == 1 and "sanitize: 6 passed, 1 failed, 0 skipped" in lines
    assert "FAILED: asan-python: a report of a sanitizer, asan-python.report.asan-python.asan.7" in lines


def test_what_cannot_be_built_is_one_failure_of_a_suite(run):
    missing = ("<skipped message='Fixture dependency failed'/>"
               "<system-out>Failed test dependencies: build-asan</system-out>")
    run.ctest("build-asan", "build", "fail", "<failure/>")
    run.ctest("asan-python", "sanitize", "notrun", missing)
    run.ctest("asan-unit", "sanitize", "notrun", missing)
    run.ctest("test_rnr", "unit", "run")
    assert run("sanitize", "unit") == (1, [
        "FAILED: build-asan", "FAILED: sanitize cannot be tested: Failed test dependencies: build-asan",
        "sanitize: 0 passed, 1 failed, 0 skipped", "unit: 1 passed, 0 failed, 0 skipped", "1 passed, 1 failed, 0 skipped"])


@pytest.mark.parametrize("prepare, line", [
    (lambda run: None, "FAILED: python: no tests"),
    (lambda run: run.ctest("python", "python", "fail", "<failure/>"), "FAILED: python"),
    (lambda run: (run.ctest("python", "python", "fail", "<failure/>"), run.part("python", passed=3)),
     "FAILED: python: its end, see python.log"),
    (lambda run: (run.ctest("python", "python", "run"), run.part("python")), "FAILED: python: no tests")],
    ids=["none", "no report", "its end", "an empty report"])
def test_what_says_nothing_has_failed(run, prepare, line):
    prepare(run)
    status, lines = run("python")
    assert status == 1 and line in lines and lines[-1].endswith("1 failed, 0 skipped")


def test_what_suites_cost(run):
    """The dearest first; a repetition is its part's; of the whole, parts have not had the rest."""
    for name, suite, cost in ("python", "python", "10.0 2.5 1000000"), ("asan-python", "sanitize", "20.0 10.0 3000000"):
        run.ctest(name, suite, "run")
        run.part(name, passed=1)
        (run.directory / f"{name}.cost").write_text(cost)
    (run.directory / "python-again-1.cost").write_text("1.0 0.5 100000")
    _, lines = run("python", "sanitize")
    assert [line.split() for line in lines[1:4]] == [
        ["sanitize", "30", "10", "3.0"], ["python", "14", "3", "1.1"], ["all", "44", "13", "4.1"]]
    _, lines = run("python", "sanitize", options=["--of", str(os.getpid())])
    assert any(line.split()[0] == "others" for line in lines)
