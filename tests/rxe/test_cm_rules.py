# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What Linux's rdma_cm refuses, and tells of, is refused and told here: the same questions to both, and the same answers."""
import difflib
import pathlib

from common import expect_success
from namespaces import IPV4, IPV6

HERE = pathlib.Path(__file__).resolve().parent
# One text, as the guest has none of our files.
QUESTIONS = f"""
import sys, types
sys.modules["rdma_cm"] = types.ModuleType("rdma_cm")
exec({(HERE.parent / "python" / "rdma_cm.py").read_text()!r}, sys.modules["rdma_cm"].__dict__)
{(HERE / "cm_rules.py").read_text()}"""
ADDRESSES = {"ours": (IPV4[0], IPV6[0]), "rxe": (IPV4[1], IPV6[1])}


def test_rules(sides):
    ours, linux = (expect_success(sides[side].run("/usr/bin/python3", "-c", QUESTIONS, *ADDRESSES[side],
                                                  seconds=300)).stdout.splitlines() for side in ("ours", "rxe"))
    assert "own6 listens, own4 is asked, port space 0x106: the client: REJECTED 28" in linux
    assert len(linux) > 800
    difference = list(difflib.unified_diff(linux, ours, "Linux", "simhca", n=1, lineterm=""))
    assert not difference, "\n".join(difference)
