# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A daemon that is attacked, and an honest program beside the attack: its data are right, and no
round of it takes long. $SIMHCA_BUILD is the build; worst rounds are in a table at the end."""
import contextlib
import os
import signal
import subprocess

import pytest

import tables
from attack import BOUND, Neighbour, Program
from protocol import BUILD


@pytest.fixture
def neighbour(daemon, request):
    neighbour = Neighbour(daemon, *getattr(request, "param", []))
    yield neighbour
    rounds, worst = neighbour.leave()
    tables.cell("beside", request.node.name, "worst round", f"{worst * 1000:.1f} ms of {rounds} rounds")
    assert worst < BOUND


@pytest.fixture
def program(daemon):
    """program(name, arguments...) starts one beside the neighbour."""
    started = []

    def start(*words, **options):
        started.append(Program(daemon, *words, **options))
        return started[-1]
    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait(10)


@pytest.fixture
def slow_server(directory):
    """Serves the file "slow" beneath its mountpoint, until it is killed."""
    program = os.path.join(BUILD, "tests", "hostile", "hostile-slow-fs")
    if not os.path.exists(program):
        pytest.skip("needs libfuse3 when it is built")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse")
    mountpoint = directory + "/mnt"
    os.mkdir(mountpoint)
    server = subprocess.Popen([program, mountpoint], stdout=subprocess.PIPE, text=True)
    try:
        if server.stdout.readline() != "ready\n":
            pytest.skip("needs to mount a FUSE file system")
        server.mountpoint = mountpoint
        yield server
    finally:
        # Lets go of whoever waits for it.
        server.kill()
        server.wait()
        subprocess.run(["umount", "-l", mountpoint], check=False)
        os.rmdir(mountpoint)


@pytest.fixture
def slow_file(slow_server):
    """A file that can be opened, and then answers nothing any more."""
    return slow_server.mountpoint + "/slow"
