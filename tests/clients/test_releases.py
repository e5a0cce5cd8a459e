# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What tests skip for."""
from releases import LACKS, codename, is_there


def test_lacks():
    """What this release is said to lack is not there; or else a test skips that could run."""
    assert not [what for what in LACKS.get(codename(), {}) if is_there(what)]
