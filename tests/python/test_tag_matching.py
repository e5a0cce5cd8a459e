# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Tag-matching SRQs through libibverbs. What the device does is in tests/c/test_tag_matching.c, and
rdma-core has a test of its own.
"""
from programs import run_c


def test_tag_matching(c_program):
    """What is refused at creation; lists of operations; whose slot is whose."""
    run_c(c_program('tag_matching.c'))
