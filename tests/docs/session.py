# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A shell in which the commands of one page are typed, and the comparison of what they print."""
import os
import pathlib
import re
import selectors
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build"))
TIME_LIMIT = 120

# What the pages call ./program and `make check`: a server and a client that talk and end.
PROGRAM = """#!/bin/sh
ibv_rc_pingpong -g "${GID:-0}" -n 20 >/dev/null 2>&1 & sleep 0.5
ibv_rc_pingpong -g "${GID:-0}" -n 20 localhost >/dev/null 2>&1
status=$?
[ $status = 0 ] || kill $!
wait
exit $status
"""
MAKEFILE = "check:\n\t@./program\n"


def namespace():
    """The prefix of a command that has a network of its own, where the kernel lets it; else none."""
    prefix = ["unshare", "-Urn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        return [] if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode else prefix
    except OSError:
        return []


class Session:
    """One bash: variables and background jobs last from command to command."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="simhca-docs-")
        path = pathlib.Path(self.home.name)
        (path / "run").mkdir(mode=0o700)
        (path / "program").write_text(PROGRAM)
        (path / "program").chmod(0o755)
        (path / "Makefile").write_text(MAKEFILE)
        (path / "examples").symlink_to(ROOT / "examples")
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("SIMHCA_", "IBV_", "RDMAV_", "LD_"))}
        self.env = env | {"PATH": f"{BUILD / 'bin'}:{env['PATH']}", "XDG_RUNTIME_DIR": str(path / "run"), "LC_ALL": "C.UTF-8",
                "HOME": str(path), "MAKEFLAGS": "-s"}
        self.shell = subprocess.Popen([*namespace(), "bash", "--norc"], cwd=path, env=self.env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.script = path / ".command"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        try:
            self.run("kill $(jobs -p) 2>/dev/null", 20)
        finally:
            # A daemon outlives the shell.
            subprocess.run([BUILD / "bin/simhca", "stop"], env=self.env, capture_output=True, check=False)
            try:
                os.killpg(self.shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.shell.wait()
            self.home.cleanup()

    def run(self, command, time_limit=TIME_LIMIT):
        """The exit status, and what was printed until the command ended. A server may have half a second to begin."""
        end = f"end-{time.monotonic_ns()}"
        self.script.write_text(command + "\n")
        wait = "sleep 0.5; " if command.rstrip().endswith("&") else ""
        self.shell.stdin.write(f". ./.command </dev/null; status=$?; {wait}echo {end} $status\n".encode())
        self.shell.stdin.flush()
        text, limit = b"", time.monotonic() + time_limit
        with selectors.DefaultSelector() as selector:
            selector.register(self.shell.stdout, selectors.EVENT_READ)
            while not (found := re.search(rf"{end} (\d+)\n".encode(), text)):
                if not selector.select(max(0, limit - time.monotonic())):
                    raise TimeoutError(f"{command}\n{text.decode(errors='replace')}")
                some = os.read(self.shell.stdout.fileno(), 65536)
                assert some, f"the shell has ended: {command}\n{text.decode(errors='replace')}"
                text += some
        return int(found[1]), text[:found.start()].decode(errors="replace")


def normal(line):
    """A line without its numbers, times, units of either, and widths of columns."""
    line = re.sub(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b|\bfe80:[0-9a-f:]+|\b[0-9a-f]{1,4}(:[0-9a-f]{0,4}){3,7}\b", "N", line)
    line = re.sub(r"\d+(\.\d+)?", "N", line)
    line = re.sub(r"N:N:N\b", "N", line)
    line = re.sub(r"N[kMG]\b", "N", line)
    line = re.sub(r"N ?(ns|us|ms|s)\b", "N T", line)
    line = re.sub(r"#+$", "#", re.sub(r"-{4,}|\+-{3,}\+", "----", line))
    return " ".join(line.split())


def agrees(shown, printed):
    """Whether each line that is shown was printed, in this order. Between them nothing is left out, but where "..." stands."""
    shown = [normal(line) for line in shown if line.strip()]
    printed = [normal(line) for line in printed if line.strip()]

    def match(i, j):
        if i == len(shown):
            return j == len(printed)
        if shown[i] == "...":
            return any(match(i + 1, k) for k in range(j, len(printed) + 1))
        return j < len(printed) and same(shown[i], printed[j]) and match(i + 1, j + 1)

    return match(0, 0)


def same(shown, printed):
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), printed) is not None
