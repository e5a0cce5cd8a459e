# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""tests/litmus by herd7, which sid alone has."""
import os
import re
import subprocess
import sys

from trees import CHROOT, LOGS, ROOT, Tree


def test_memory_orders(tmp_path):
    tree = Tree("sid", "orders")
    try:
        herd = f"{CHROOT} run --bind {tmp_path} {tree.path} herd7"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp",
             tmp_path / "litmus", ROOT / "tests" / "litmus"], env=os.environ | {"SIMHCA_HERD": herd},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        tree.remove()
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "memory-orders.log").write_text(done.stdout)
    # None was skipped.
    assert re.search(r"^\d+ passed in ", done.stdout, re.M), done.stdout[-3000:]
