# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Importing a device by its descriptor, and what was made on it by handle."""
import pytest

from programs import run_c


@pytest.mark.parametrize('where', ['here', 'there'])
def test_import(c_program, where):
    """In one process, in every order of going; in another one that has only the descriptor."""
    run_c(c_program('import.c'), where)
