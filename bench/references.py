# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the machine can do without simhca: us for one of each, by name and bytes."""

import shutil
import subprocess
import time

from near import Near
from pairs import PROGRAM_SECONDS, is_listened_on, new_port, note

# name, test of ucx_perftest, transport, more, bytes, how many, column of its line
UCX = [
    ("ucx_am", "am_lat", "posix", [], (8, 64), 20000, "50.0_percentile_lat"),
    ("ucx_am", "am_lat", "posix", ["-D", "bcopy"], (4096,), 20000, "50.0_percentile_lat"),
    ("ucx_put", "put_lat", "posix", [], (8,), 20000, "50.0_percentile_lat"),
    ("ucx_cma", "put_bw", "cma", ["-D", "zcopy"], (65536, 1048576), 2000, "overall_mr"),
]


def of_program(program):
    done = subprocess.run([program], stdout=subprocess.PIPE, timeout=PROGRAM_SECONDS, check=True)
    return {name: float(us) for name, us in map(str.split, done.stdout.decode().splitlines())}


def ucx(test, transport, more, size, count, column):
    port = new_port()
    command = ["ucx_perftest", "-p", str(port)]
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, **quiet)
    try:
        deadline = time.monotonic() + 10
        while not is_listened_on(port) and time.monotonic() < deadline:
            time.sleep(0.02)
        command += ["localhost", "-t", test, "-d", "memory", "-x", transport, *more]
        command += ["-s", str(size), "-n", str(count), "-f", "-v"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=PROGRAM_SECONDS, check=True, **quiet
        )
    finally:
        server.kill()
        server.wait()
    header, values = done.stdout.decode().splitlines()[-2:]
    value = float(dict(zip(header.split(","), values.split(",")))[column])
    return 1e6 / value if column.endswith("_mr") else value


def measure(program):
    """What cannot be measured is missing, with a note."""
    found = {}
    try:
        found.update(of_program(program))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        note(f"bench: {program}: {error}")
    found.update(Near(program).measure(of_ucx, [name for name, *_ in UCX]))
    return found


def of_ucx(names):
    found = {}
    if not shutil.which("ucx_perftest"):
        note("bench: without ucx_perftest (package ucx-utils)")
        return found
    for name, test, transport, more, sizes, count, column in UCX:
        for size in sizes if name in names else ():
            try:
                found[f"{name}_{size}"] = ucx(test, transport, more, size, count, column)
            except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
                note(f"bench: ucx_perftest {test}: {error}")
    return found
