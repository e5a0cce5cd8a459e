# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Parent domains, their allocators, and thread domains."""
from programs import run_c


def test_parent_domains(c_program):
    """Allocators asked and told, orders of going, wrong attributes, messages without locks."""
    run_c(c_program('parent_domain.c'))
