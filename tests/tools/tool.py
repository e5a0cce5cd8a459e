# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A copy of the tool in a directory of its own, with a daemon beside it that has no device."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from common import BUILD, alive, wait_until
from protocol import CONTROL_VERSION

HERE = pathlib.Path(__file__).resolve().parent
SUBCOMMANDS = ["run", "start", "stop", "status", "qp", "cq", "srq", "mr", "cm", "stat", "top", "wire",
               "explain", "trace", "inject", "env", "cdi"]


class Tool:
    control_version = CONTROL_VERSION

    def __init__(self, prefix, runtime, environment):
        self.prefix = prefix
        self.runtime = runtime
        self.environment = environment
        self.path = prefix / "bin" / "simhca"
        self.processes = []

    def env(self, **changes):
        merged = dict(self.environment)
        for name, value in changes.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = str(value)
        return merged

    def __call__(self, *arguments, **changes):
        """Runs the tool to its end."""
        return subprocess.run([self.path, *map(str, arguments)], env=self.env(**changes),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)

    def start(self, *arguments, **changes):
        """Leaves it running."""
        process = subprocess.Popen([self.path, *map(str, arguments)], env=self.env(**changes),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def normalised(self, *options):
        """The daemon's one way of writing these options, from what the tool says it asks for."""
        if self("start", FAKE_OPTIONS="--mtu=none").returncode:
            raise RuntimeError("the daemon does not start")
        stderr = self("start", *options).stderr
        self("stop")
        return re.search("asked for: ([^;]*);", stderr)[1]

    def daemon_pid(self):
        try:
            return int((self.runtime / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def daemon_lives(self):
        pid = self.daemon_pid()
        return pid is not None and alive(pid)


@contextlib.contextmanager
def installed():
    """A prefix that has the tool, and what it looks for beside it."""
    with tempfile.TemporaryDirectory(prefix="simhca-tool-") as path:
        directory = pathlib.Path(path)
        (directory / "bin").mkdir()
        (directory / "lib").mkdir()
        shutil.copy(BUILD / "bin" / "simhca", directory / "bin" / "simhca")
        shutil.copy(HERE / "fake_simhcad.py", directory / "bin" / "simhcad")
        (directory / "bin" / "simhcad").chmod(0o755)
        shutil.copy(BUILD / "lib" / "libsimhca-preload.so", directory / "lib")
        shutil.copytree(BUILD / "lib" / "container", directory / "lib" / "container")
        for pabi in (34, 57, 59, 64, 65):
            (directory / "lib" / f"libsimhca-rdmav{pabi}.so").touch()
        yield directory


@contextlib.contextmanager
def tool_of(prefix):
    """With a runtime directory of its own; what it has started ends with it."""
    runtime = pathlib.Path(tempfile.mkdtemp(prefix="simhca-rt-"))
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMHCA_", "FAKE_", "LD_PRELOAD", "IBV_", "RDMAV_"))}
    environment["SIMHCA_RUNTIME_DIR"] = str(runtime)
    environment["FAKE_VERSION"] = str(CONTROL_VERSION)
    made = Tool(prefix, runtime, environment)
    try:
        yield made
    finally:
        for process in made.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not made.daemon_lives(), 2, "its daemon ends")
        if made.daemon_lives():
            os.kill(made.daemon_pid(), signal.SIGKILL)
        shutil.rmtree(runtime, ignore_errors=True)
