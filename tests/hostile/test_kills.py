# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that are killed in the middle of what they do, again and again: nothing of them stays.
$SIMHCA_KILLS says how many."""
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import pytest

from protocol import BUILD

KILLS = int(os.environ.get("SIMHCA_KILLS", "60"))
AT_ONCE = 4
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM = 20  # until what the daemon keeps for good is there


def victim(daemon, kind):
    return subprocess.Popen(
        [os.path.join(BUILD, "bin", "simhca"), "run", "--runtime-dir", daemon.directory, "--",
         os.path.join(BUILD, "tests", "hostile", "hostile-neighbour"), *kind],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdin.close()


def kill_some(daemon, count, on_demand):
    """At any time of their lives, from before they have the device; so many of three have regions on demand."""
    noise = random.Random(count)
    alive = []
    for number in range(count):
        alive.append(victim(daemon, ["odp"] if number % 3 < on_demand else []))
        time.sleep(noise.uniform(0, 0.03))
        if len(alive) == AT_ONCE:
            kill(alive.pop(noise.randrange(AT_ONCE)))
    for process in alive:
        kill(process)


class Device:
    """Its memory is counted without what was mapped before the first program: tables of a device's numbers, which are taken
    in turn, so that more and more of a table is touched until all of it is; and stacks."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.proc = pathlib.Path(f"/proc/{daemon.process.pid}")
        self.mapped = [[int(end, 16) for end in ends] for ends in
                       re.findall(r"^(\w+)-(\w+) rw-p 0+ 00:00 0 *$", (self.proc / "maps").read_text(), re.M)]

    def memory(self):
        """KiB."""
        pages = 0
        with open(self.proc / "pagemap", "rb") as pagemap:
            for start, end in self.mapped:
                pagemap.seek(start // PAGE * 8)
                pages += sum(entry >> 63 for entry, in struct.iter_unpack("=Q", pagemap.read((end - start) // PAGE * 8)))
        return int(re.search(r"RssAnon:\s+(\d+)", (self.proc / "status").read_text())[1]) - pages * PAGE // 1024

    def footprint(self):
        """Contexts, descriptors, threads, KiB. To ask for its status takes a moment's connection and file of the daemon's."""
        descriptors = self.daemon.fds()
        return (self.daemon.status()["devices"][0]["contexts"], descriptors, len(os.listdir(self.proc / "task")),
                self.memory())


@pytest.mark.parametrize("daemon, on_demand", [([], 2), (["--fast-path", "on", "--shared-memory", "on"], 1)],
                         indirect=["daemon"], ids=["private", "shared"])
def test_killed_again_and_again(daemon, on_demand):
    """With memory that is where it was, or that is moved into files, and back, while they register."""
    device = Device(daemon)
    empty = device.footprint()
    kill_some(daemon, WARM, on_demand)
    daemon.wait_until(lambda: device.footprint()[:2] == empty[:2])
    before = device.footprint()
    kill_some(daemon, KILLS, on_demand)
    daemon.wait_until(lambda: device.footprint()[:2] == empty[:2] and device.footprint()[2] <= before[2])
    after = device.footprint()
    print(f"{KILLS} kills: contexts, descriptors, threads, KiB: {before} before, {after} after")
    assert after[3] - before[3] < 1024
