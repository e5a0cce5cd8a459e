# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""QEMU: a guest that runs is moved to another QEMU, its memory by RDMA writes."""
import shutil

import pytest

from guest import QEMU, migrate

NOBODY_ON = ["ib"]

pytestmark = pytest.mark.skipif(not shutil.which(QEMU), reason=f"{QEMU} is not installed")


@pytest.mark.parametrize("pin_all", [False, True], ids=["by-chunks", "pinned"])
def test_migration(device, port, pin_all):
    migrate(device, device, "127.0.0.1", port, pin_all)
