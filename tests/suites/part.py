#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Runs a part of a suite: what ctest calls (cmake/Suites.cmake), and pytest for itself (conftest.py).

    part.py [OPTION]... pytest ARGUMENT...
    part.py [OPTION]... ctest TREE ARGUMENT...
    part.py [OPTION]... upstream ARGUMENT...       rdma-core's tests, by tests/upstream/run.py
    part.py [OPTION]... build PRESET [TARGET]...   and tries whether its device carries a message

A part that has a name leaves NAME.log, NAME.xml and, of sanitizers, NAME.report.* in build/test-logs; and NAME.cost, the
CPU seconds of all that it has run, in programs and in the kernel, and their page faults. With SIMHCA_TEST_AGAIN in the
environment it runs the tests once more that failed before, and leaves NAME-again-N.xml.
No process is left of a part when it ends, however it ends.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as tree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOGS = ROOT / "build" / "test-logs"
PYTHON = "/usr/bin/python3"  # Debian's: python3-pyverbs is for no other
MOST = 10  # of more failed tests none is run again
SKIPPED = 77  # the exit status of what cannot be run here
DEVICE_GONE = 70  # that of pytest in tests/python when the device has ended
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SENDS = """from pair import Pair, e; pair = Pair(); pair.receive(1); pair.send(1, e.IBV_WR_SEND)
while not pair.cq.poll(1)[0]: pass"""


# ------------------------------------------------------------------------------- trees


def opened(build, work):
    """build, or a copy of what is run of it where other users cannot come to it, as below /root."""
    there = ["setpriv", "--reuid", "65534", "--clear-groups", "test", "-x", build / "bin" / "simhcad"]
    if os.geteuid() or subprocess.run(there, check=False).returncode == 0:
        return build
    copy = work / build.name
    if not copy.exists():
        (copy / "bin").mkdir(parents=True)
        for entry in build.iterdir():
            if entry.name == "bin":
                for name in "simhca", "simhcad":
                    if (entry / name).exists():  # a part builds what it needs
                        shutil.copy(entry / name, copy / "bin")
            elif entry.name == "lib":
                shutil.copytree(entry, copy / "lib", symlinks=True)
            else:
                (copy / entry.name).symlink_to(entry)
    return copy


def variant(name, build, work, *command):
    """A tree like build whose simhcad is started by a command: `simhca run` has the daemon under another roof."""
    made = work / name
    (made / "bin").mkdir(parents=True)
    for directory, but in (build, ["bin"]), (build / "bin", ["simhca", "simhcad"]):
        for entry in directory.iterdir():
            if entry.name not in but:
                (made / entry.relative_to(build)).symlink_to(entry)
    shutil.copy(build / "bin" / "simhca", made / "bin")
    daemon = made / "bin" / "simhcad"
    daemon.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
    daemon.chmod(0o755)
    return made


def no_aslr():
    """ThreadSanitizer of gcc 12 and older does not know the address layouts of newer kernels."""
    command = ["setarch", os.uname().machine, "-R"]
    return command if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0 else []


class Under:
    """A build, what its programs have in their environment, and what is before commands in it."""

    def __init__(self, how, work):
        self.build = ROOT / "build"
        self.environment = {}
        self.prefix = []
        self.reports = work / "reports"
        self.reports.mkdir()
        self.reports.chmod(0o1777)  # the logs may be closed to other users
        if how:
            getattr(self, how)(work)

    def _asan_options(self, leaks):
        log = f"log_path={self.reports}/asan"
        self.environment["UBSAN_OPTIONS"] = f"print_stacktrace=1:halt_on_error=1:{log}"
        return f"halt_on_error=1:abort_on_error=0:verify_asan_link_order=0:{log}:detect_leaks={leaks}"

    def asan(self, work):
        """The daemon, and libraries in programs that are not ours: these leak as they like, the daemon does not."""
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True, check=True)
        self.environment["SIMHCA_PRELOAD_FIRST"] = runtime.stdout.strip()
        self.environment["ASAN_OPTIONS"] = self._asan_options(leaks=0)
        build = opened(ROOT / "build-asan", work)
        self.build = variant("asan", build, work, "env", f"ASAN_OPTIONS={self._asan_options(leaks=1)}",
                             build / "bin" / "simhcad")

    def asan_of_ours(self, _work):
        """Programs of ours, which have the runtime, and do not leak: preloaded, our library would come before it."""
        self.environment["ASAN_OPTIONS"] = self._asan_options(leaks=1)
        self.build = ROOT / "build-asan"

    def asan_but_leaks(self, _work):
        self.environment["ASAN_OPTIONS"] = self._asan_options(leaks=0)
        self.build = ROOT / "build-asan"

    def _tsan_options(self):
        self.environment["TSAN_OPTIONS"] = f"halt_on_error=1:log_path={self.reports}/tsan"

    def tsan(self, work):
        """The daemon, with the provider of build: programs that are not ours have no business with ThreadSanitizer."""
        self._tsan_options()
        daemon = opened(ROOT / "build-tsan", work) / "bin" / "simhcad"
        self.build = variant("tsan", opened(self.build, work), work, *no_aslr(), daemon)

    def tsan_of_ours(self, _work):
        self._tsan_options()
        self.prefix = no_aslr()
        self.build = ROOT / "build-tsan"

    def valgrind(self, work):
        """The daemon."""
        build = opened(self.build, work)
        self.build = variant("valgrind", build, work, "valgrind", "-q", "--error-exitcode=99",
                             f"--log-file={self.reports}/valgrind.%p", "--leak-check=full",
                             "--errors-for-leak-kinds=definite,possible",
                             f"--suppressions={HERE / 'valgrind.supp'}", build / "bin" / "simhcad")

    def shared_memory(self, work):
        """No sanitizer: a daemon by which programs move what they register into files. Tests look for the variable."""
        build = opened(self.build, work)
        self.environment["SIMHCA_TEST_SHARED_MEMORY"] = "1"
        self.build = variant("shared", build, work, build / "bin" / "simhcad", "--shared-memory", "on")

    def found(self):
        """The reports that say something. valgrind's errors have == before each line, its warnings --."""
        for path in sorted(self.reports.iterdir()):
            text = path.read_text(errors="replace")
            if any(line.startswith("==") or "Sanitizer" in line or "runtime error" in line for line in text.splitlines()):
                yield path


HOWS = "asan", "asan_of_ours", "asan_but_leaks", "tsan", "tsan_of_ours", "valgrind", "shared_memory"


# --------------------------------------------------------------------------- processes


class Stopped(Exception):
    """By a signal, whose number it has."""


def descendants():
    """The processes below this one: orphans come to it, too."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def wait_for_all(seconds):
    """Whether no child is left, within a time."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        return False
    return True


def kill_all():
    while not wait_for_all(0.1):
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(argv, limit, **options):
    """
    The exit status of a command, or None if it was not done within the limit. What it leaves behind has some time
    to end, for its reports; then all that it has started is ended.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def stop(number, _frame):
        raise Stopped(number)

    for number in signal.SIGTERM, signal.SIGINT, signal.SIGALRM:
        signal.signal(number, stop)
    signal.alarm(limit or 0)
    process = None
    try:
        process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, process_group=0, **options)
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
        signal.alarm(0)
        wait_for_all(5)
        return process.returncode
    except Stopped as stopped:
        for number in signal.SIGTERM, signal.SIGINT, signal.SIGALRM:
            signal.signal(number, signal.SIG_IGN)
        if process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            wait_for_all(20)
            process.returncode = -signal.SIGTERM
        if stopped.args[0] == signal.SIGALRM:
            return None
        kill_all()
        sys.exit(128 + stopped.args[0])
    finally:
        signal.alarm(0)
        kill_all()


# ------------------------------------------------------------------------------- parts


def failed_tests(report):
    return [case.get("name") for case in tree.parse(report).getroot().iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None]


class Part:
    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.name = options.name
        self.under = Under(options.under, work)
        self.build = opened(self.under.build, work) if options.for_others else self.under.build
        self.again = bool(self.name and os.environ.get("SIMHCA_TEST_AGAIN"))
        self.cache = work / "cache"
        self.stem = self.name
        if self.name:
            LOGS.mkdir(parents=True, exist_ok=True)
            self.begin(work)
        self.log = self.name and LOGS / f"{self.stem}.log"
        self.report = self.name and LOGS / f"{self.stem}.xml"

    def begin(self, work):
        """Of a repetition: its own names, and a cache from which it takes those that pass."""
        kept = LOGS / "cache" / self.name
        if not self.again:
            for pattern in "{}.xml", "{}.status", "{}.cost", "{}.report.*", "{}-again-*":
                for path in LOGS.glob(pattern.format(self.name)):
                    path.unlink()
            shutil.rmtree(kept, ignore_errors=True)
            self.cache = kept
            return
        number = len(list(LOGS.glob(f"{self.name}-again-*.xml"))) + 1
        self.stem = f"{self.name}-again-{number}"
        if kept.exists():
            shutil.copytree(kept, self.cache)

    def selection(self):
        """The tests that a repetition has, or why there is none."""
        first = LOGS / f"{self.name}.xml"
        if not first.exists() or self.status is None:
            return None, "it did not come to its end"
        if self.status == DEVICE_GONE:
            return None, "the device has ended, and no test was run after that"
        names = failed_tests(first)
        if not 0 < len(names) <= MOST:
            return None, f"{len(names)} tests have failed"
        return names, None

    @property
    def status(self):
        """The exit status that it had the first time, if it came to its end."""
        path = LOGS / f"{self.name}.status"
        return int(path.read_text()) if path.exists() else None

    def command(self, names):
        arguments = self.options.arguments
        return getattr(self, "command_of_" + self.options.kind)(names, arguments)

    def command_of_pytest(self, names, arguments):
        own = ["-o", f"cache_dir={self.cache}"]
        if self.report:
            own += ["-q", "-o", "junit_family=xunit2", f"--junitxml={self.report}"]
        if self.name:  # CMake's lists cannot hold a [ without its ]
            arguments = [word.replace("@", "[") for word in arguments]
        return [PYTHON, "-m", "pytest", *own, *arguments, *(["--last-failed"] if names else [])]

    def command_of_ctest(self, names, arguments):
        build, *rest = arguments
        only = ["-R", f"^({'|'.join(names)})$"] if names else []
        return ["ctest", "--test-dir", ROOT / build, "--output-on-failure", "--no-tests=error", "--output-junit",
                self.report, *rest, *only]

    def command_of_upstream(self, _names, arguments):
        # The tests' allocator of dma-bufs is replaced by one that needs no GPU.
        return ["sh", "-c", 'LD_PRELOAD=$LD_PRELOAD:$0 exec "$@"',
                self.build / "tests" / "upstream" / "libupstream-dmabuf.so", PYTHON,
                ROOT / "tests" / "upstream" / "run.py", "--tests", ROOT / "build" / "upstream", "--report", self.report,
                *arguments]

    def command_of_build(self, _names, arguments):
        preset, *targets = arguments
        if preset == "release" and "SIMHCA_TEST_BUILT" in os.environ:  # scripts/test has built what its suites need
            return ["true"]
        # The release tree, which this test is of, may have been configured otherwise.
        script = "" if preset == "release" else 'cmake --preset "$0" && '
        return ["sh", "-c", script + 'cmake --build --preset "$0" "$@"', preset,
                *(["--target", *targets] if targets else [])]

    def device_works(self, output):
        """Whether a program has a device of the build, sends itself a message, and both end well."""
        preset = self.options.arguments[0]
        if preset not in ("release", "asan", "tsan"):
            return True
        work = self.work / "device"
        work.mkdir()
        under = Under("" if preset == "release" else preset, work)
        environment = {**os.environ, **under.environment, "PYTHONPATH": str(ROOT / "tests" / "clients")}
        status = run([under.build / "bin" / "simhca", "run", "--private", "--", PYTHON, "-c", SENDS], 120,
                     env=environment, **output)
        return status == 0 and not list(under.found())

    def run(self):
        names = None
        if self.again and self.options.kind == "build":
            return 0 if self.status == 0 else 1
        if self.again:
            names, why = self.selection()
            if not names:
                print(f"{self.name} is not run again: {why}")
                return 1
        if self.options.needs_chroot:
            possible = subprocess.run([ROOT / "scripts" / "chroot", "possible"], stderr=subprocess.PIPE, text=True,
                                      check=False)
            if possible.returncode:
                print(f"{self.name} is skipped: {possible.stderr.strip()}")
                return SKIPPED
        argv = self.command(names)
        if self.options.device is not None:
            argv = [self.build / "bin" / "simhca", "run", "--private", *shlex.split(self.options.device), "--", *argv]
        if self.options.idle and not self.again:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.nice(0 if self.again else self.options.nice)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("SIMHCA_RUNTIME_DIR", "SIMHCA_PRELOAD_FIRST", "SIMHCA_TEST_AGAIN")}
        environment |= {**self.under.environment, "SIMHCA_BUILD": str(self.build)}
        environment |= dict(pair.split("=", 1) for pair in self.options.set)
        if self.options.seed:
            first = int(environment.get("SIMHCA_TEST_SEED") or time.time())
            environment["SIMHCA_TEST_SEED"] = str(first + self.options.seed)
        if not self.name:
            return self.judge(run([*self.under.prefix, *argv], 0, env=environment))
        deadline = time.monotonic() + 60 * int(os.environ.get(self.options.minutes or "", 30))
        with open(self.log, "wb") as log:
            output = {"stdout": log, "stderr": subprocess.STDOUT}
            status = run([*self.under.prefix, *argv], self.options.limit, env=environment, cwd=ROOT, **output)
            while self.options.minutes and status == 0 and time.monotonic() < deadline:
                status = run([*self.under.prefix, *argv], self.options.limit, env=environment, cwd=ROOT, **output)
            if status == 0 and self.options.kind == "build" and not self.device_works(output):
                print(f"{self.name}: the device does not work")
                status = 1
        self.write_cost()
        return self.judge(status)

    def write_cost(self):
        """Orphans are waited for, too, and so count: this process adopts them."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        (LOGS / f"{self.stem}.cost").write_text(f"{used.ru_utime:.2f} {used.ru_stime:.2f} {used.ru_minflt}\n")

    def judge(self, status):
        """The exit status, of the command's and the reports."""
        if self.name and status is None:
            self.report.unlink(missing_ok=True)  # of an earlier round, or half of one
            print(f"{self.name}: not done after {self.options.limit} s")
        elif self.name and not self.again:
            (LOGS / f"{self.name}.status").write_text(str(status))
        reports = list(self.under.found())
        if self.log and (status != 0 or reports):
            lines = self.log.read_text(errors="replace").splitlines()
            print("\n".join(lines[-150:]))
        for path in reports:
            print(f"a report, {path.name}:\n{path.read_text(errors='replace')}")
            if self.name:
                shutil.copy(path, LOGS / f"{self.name}.report.{self.stem}.{path.name}")
        return status if status is not None and status >= 0 and not reports else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", help="of the part; without one, all is for whoever looks at the terminal")
    parser.add_argument("--limit", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--idle", action="store_true", help="with what others leave of the CPUs")
    parser.add_argument("--under", choices=HOWS, help="a sanitizer, or valgrind")
    parser.add_argument("--for-others", action="store_true", help="the build is run by other users, too")
    parser.add_argument("--device", metavar="OPTIONS", help="on a device of its own, which has these options")
    parser.add_argument("--needs-chroot", action="store_true", help="skipped where scripts/chroot cannot be used")
    parser.add_argument("--minutes", metavar="VARIABLE", help="again and again, for as many as that says, or 30")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="in the environment")
    parser.add_argument("--seed", type=int, metavar="N", help="SIMHCA_TEST_SEED is the one N after it, or after the time")
    parser.add_argument("kind", choices=("pytest", "ctest", "upstream", "build"))
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    # Who is waited for by nobody any more ends.
    if options.name:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # Short: the addresses of sockets in it have a limit. Programs of other users run from the trees in it, and programs in
    # containers, which have a /dev of their own: $TMPDIR may lie in there.
    work = pathlib.Path(tempfile.mkdtemp(prefix="simhca-test-", dir="/tmp"))
    work.chmod(0o755)
    try:
        return Part(options, work).run()
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
