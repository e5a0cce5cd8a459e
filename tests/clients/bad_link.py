# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A bad wire between two hosts (bad_wire.c), and what they have counted of it."""
import contextlib
import os
import random

from common import TIME_LIMIT, Program, clean_environment, expect_success, wait_until
from namespaces import bring_up, inside, two_hosts

COUNTERS = "/sys/class/infiniband/simhca0/ports/1/hw_counters"
SEED = int(os.environ.get("SIMHCA_SEED", random.randrange(1 << 32)))


@contextlib.contextmanager
def joined(bad_wire, options=(), env=None, **fate):
    """
    Two hosts, with devices of these options, started with these variables; fate is what bad_wire.c says of the wire
    between them. Also the program.
    """
    started = []

    def join(first, second, name, mtu, addresses):
        started.append(Program(
            [*inside(first), bad_wire, *(f"/proc/{pid}/ns/net" for pid in (first, second)), name,
             SEED, *(f"{what}={number}" for what, number in fate.items())],
            clean_environment()))
        wait_until(lambda: started[0].stdout or not started[0].running, TIME_LIMIT, "taps are there")
        assert started[0].running, started[0].result()
        bring_up(first, second, name, mtu, addresses)

    print(f"SIMHCA_SEED={SEED}")
    try:
        with two_hosts(1500, *options, join=join, env=env) as hosts:
            try:
                yield hosts, started[0]
            finally:
                for host in hosts:
                    print(host.run("sh", "-c", f"grep -r . {COUNTERS}").stdout)
    finally:
        for program in started:
            program.kill()


def counter(host, name):
    return int(expect_success(host.run("cat", f"{COUNTERS}/{name}")).stdout)
