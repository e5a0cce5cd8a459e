# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca explain`: verbs that fail as the program has no descriptor left, or no room for a mapping."""
import errno
import re

import pytest

from common import HERE, SIMHCA, blocks, expect_success
from middleware import compiled

PYTHON = "/usr/bin/python3"

NO_DESCRIPTOR = """
import errno, os, resource
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pyverbs_error import PyverbsRDMAError

context = Context(name="simhca0")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
# The provider has one to spare, a duplicate; as a program closes what it does not know, and opens files.
seen = set()
for fd in range(3, 64):
    try:
        name = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        continue
    if name.startswith("socket:") and name in seen:
        os.dup2(0, fd)
    seen.add(name)
try:
    while True:
        os.dup(0)
except OSError:
    kept = []
try:
    while True:
        kept.append(CQ(context, 5000))
except PyverbsRDMAError as error:
    assert error.error_code == errno.EMFILE
"""


def test_no_descriptor(launcher):
    """A verb that cannot map what it has made: the daemon made it, and does not see why it went."""
    result = launcher.run(SIMHCA, "run", "--private", "--explain", "--", PYTHON, "-c", NO_DESCRIPTOR)
    text, = blocks(expect_success(result).stderr)
    assert re.search(r"\]: CREATE_CQ is refused: Too many open files$", text[0])
    assert text[1].strip() == ("because:    its memory cannot be mapped: the program has as many descriptors open as it "
                               "may, 64 (ulimit -n)")


LOST_RING = """
import resource
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pyverbs_error import PyverbsRDMAError

context = Context(name="simhca0")
cq = CQ(context, 10)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
try:
    cq.resize(100000)
except PyverbsRDMAError as error:
    print(error.error_code)
try:
    cq.poll()
except PyverbsRDMAError as error:
    print("no more polls")
"""


def test_a_ring_that_cannot_be_mapped(launcher):
    """The device has moved the CQ, and its program cannot follow: polls fail, and do not find it empty for ever."""
    result = launcher.run(SIMHCA, "run", "--private", "--", PYTHON, "-c", LOST_RING)
    assert expect_success(result).stdout == f"{errno.ENOMEM}\nno more polls\n"


LIMIT = "the program has as many descriptors open as it may, 64 (ulimit -n)"


@pytest.fixture(scope="module")
def none_left(programs):
    return compiled(programs, HERE.parent / "programs/none_left.c", "-D_GNU_SOURCE", "-libverbs")


@pytest.mark.parametrize("left, verb, told, because", [
    (0, "channel", "CREATE_CHANNEL", "it takes a descriptor"),
    (0, "dm", "ALLOC_DM", "its memory cannot be mapped"),
    (0, "gid", "(OPEN|QUERY_GID)", r"(/sys/class/infiniband/simhca0/\S+ cannot be opened|it takes a descriptor)"),
    (0, "gid_ex", "QUERY_GID", "it takes a descriptor"),
    (0, "gid_table", "QUERY_GID", "it takes a descriptor"),
    (0, "open", "OPEN", r"/\S+ cannot be opened"),
    (1, "open", "OPEN", r"/\S+ cannot be opened"),
    (2, "open", "OPEN_DEVICE", "it takes about half a dozen descriptors"),
    (5, "open", "OPEN_DEVICE", "it takes about half a dozen descriptors"),
    (0, "rdma_cm", "OPEN", "/dev/infiniband/rdma_cm cannot be opened"),
    (0, "list", "OPEN", r"/\S+ cannot be opened"),
    (0, "first", "OPEN", r"/\S+ cannot be opened"),
    (1, "first", "OPEN", r"/\S+ cannot be opened"),
    (2, "first", "OPEN_DEVICE", "it takes about half a dozen descriptors"),
])
def test_no_descriptor_left(launcher, none_left, left, verb, told, because):
    """There is none for the socket of an answer either: it is told without one."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", none_left, str(left), verb))
    text = blocks(result.stderr)[0]
    assert re.search(rf"\]: {told} is refused: Too many open files$", text[0])
    assert re.fullmatch(rf"because: +{because}: {re.escape(LIMIT)}", text[1].strip())
