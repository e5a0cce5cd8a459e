# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What a Debian release lacks of the programs that the tests run."""
import functools
import pathlib
import re
import shutil
import subprocess

import pytest

LACKS = {
    "bookworm": {"srd_writes": "Debian 12 has no RDMA writes over SRD in perftest",
                 "efa_direct": "Debian 12 has no efa-direct in libfabric",
                 "wide_wqes": "Debian 12 has no wide WQEs in libefa"},
    "trixie": {"dtest": "Debian 13 has no dapl2-utils",
               "wide_wqes": "Debian 13 has no wide WQEs in libefa",
               "inline_search": "libfabric 2 does not try how much inline data a QP may have",
               "whole_space": "UCX 1.18 makes no region of the whole address space any more",
               "inline_recv": "perftest 25 has no --inline_recv any more",
               "openib": "Open MPI 5 has no verbs of its own any more"},
    "forky": {"librpma": "Debian 14 has no librpma",
              "openib": "Open MPI 5 has no verbs of its own any more"},
    "sid": {"librpma": "sid has no librpma any more",
            "inline_search": "libfabric 2 does not try how much inline data a QP may have",
            "whole_space": "UCX 1.18 makes no region of the whole address space any more",
            "inline_recv": "perftest 25 has no --inline_recv any more",
            "openib": "Open MPI 5 has no verbs of its own any more"},
}


@functools.cache
def codename():
    """Of this release; Debian's testing and sid have the same os-release."""
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", pathlib.Path("/etc/os-release").read_text(),
                      re.M)
    return found[1] if found else ""


def lacks(what):
    """Why this release lacks it; None: it has it."""
    return LACKS.get(codename(), {}).get(what)


def needs(what):
    """Skips a test in the releases that lack this, and in no other."""
    reason = lacks(what)
    return pytest.mark.skipif(reason is not None, reason=reason or "")


def is_there(what):
    if what == "openib":
        found = subprocess.run(["ompi_info"], capture_output=True, text=True, check=True)
        return "MCA btl: openib" in found.stdout
    if what == "srd_writes":
        found = subprocess.run(["ib_write_bw", "-c", "SRD"], capture_output=True, text=True, check=False)
        return "only possible in SEND/READ verbs" not in found.stdout + found.stderr
    if what in ("efa_direct", "inline_search"):
        found = subprocess.run(["fi_info", "--version"], capture_output=True, text=True, check=True)
        version = tuple(map(int, re.search(r"libfabric: (\d+)\.(\d+)", found.stdout).groups()))
        return version >= (2, 1) if what == "efa_direct" else version < (2, 0)
    if what == "wide_wqes":
        library, = {path.resolve() for path in pathlib.Path("/usr/lib").glob("*/libefa.so.1")}
        return int(re.search(r"\.(\d+)\.\d+$", library.name)[1]) >= 60
    if what == "inline_recv":
        usage = subprocess.run(["ib_send_bw", "--help"], capture_output=True, text=True, check=False)
        return "--inline_recv" in usage.stdout + usage.stderr
    if what == "whole_space":
        if not shutil.which("ucx_info"):
            return False
        found = subprocess.run(["ucx_info", "-c"], capture_output=True, text=True, check=True)
        return "UCX_IB_REG_METHODS" in found.stdout
    if what == "librpma":
        return pathlib.Path("/usr/include/librpma.h").exists()
    return shutil.which(what) is not None
