# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs that are killed in the middle of what they do, again and again: nothing of them stays.
$SIMHCA_KILLS says how many."""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from conftest import BUILD

KILLS = int(os.environ.get("SIMHCA_KILLS", "60"))
AT_ONCE = 4
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


def kill_some(daemon, count):
    """At any time of their lives, from before they have the device."""
    noise = random.Random(count)
    alive = []
    for number in range(count):
        alive.append(victim(daemon, ["odp"] if number % 3 else []))
        time.sleep(noise.uniform(0, 0.03))
        if len(alive) == AT_ONCE:
            kill(alive.pop(noise.randrange(AT_ONCE)))
    for process in alive:
        kill(process)


def footprint(daemon):
    """Contexts, descriptors, threads, KiB of its own memory."""
    proc = pathlib.Path(f"/proc/{daemon.process.pid}")
    return (daemon.status()["devices"][0]["contexts"], daemon.fds(), len(os.listdir(proc / "task")),
            int(re.search(r"RssAnon:\s+(\d+)", (proc / "status").read_text())[1]))


def test_killed_again_and_again(daemon):
    empty = footprint(daemon)
    kill_some(daemon, WARM)
    daemon.wait_until(lambda: footprint(daemon)[:2] == empty[:2])
    before = footprint(daemon)
    kill_some(daemon, KILLS)
    daemon.wait_until(lambda: footprint(daemon)[:2] == empty[:2] and footprint(daemon)[2] <= before[2])
    after = footprint(daemon)
    print(f"{KILLS} kills: contexts, descriptors, threads, KiB: {before} before, {after} after")
    assert after[3] - before[3] < 2048
