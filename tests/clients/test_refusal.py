# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A provider and a libibverbs that do not belong together: the provider is refused when it is loaded,
with one line that says why, and the program goes on without the device.
"""
import re
import shutil
import subprocess

import pytest

from common import BUILD, HERE, SIMHCA, expect_success

PROVIDER = next((BUILD / "lib").glob("libsimhca-rdmav*.so"), None)
PABI = re.search(r"rdmav(\d+)", PROVIDER.name)[1] if PROVIDER else None


def releases():
    """What a provider built here says: the releases whose libibverbs is laid out as this one's."""
    version = subprocess.run(["pkg-config", "--modversion", "libibverbs"], check=True, text=True,
                             capture_output=True, timeout=60).stdout
    release = int(version.split(".")[2])
    for known in "39-43", "44", "45-56", "57-58", "59-61", "62-63", "64", "65":
        if int(known.split("-")[0]) <= release <= int(known.split("-")[-1]):
            return known
    raise ValueError(f"rdma-core {release} is not known")


# What the shim alters, and what the provider calls it.
LAYOUTS = {
    "OPS_SHIFTED": "advise_mr",
    "CONTEXT_GROWN": "struct verbs_context",
    "QP_MOVED": "struct verbs_qp",
}


@pytest.fixture(params=LAYOUTS.items(), ids=LAYOUTS)
def shim(request, tmp_path):
    """(library to be preloaded, what is wrong with it)"""
    layout, wrong = request.param
    library = tmp_path / "layout_shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", f"-D{layout}", "-o", library,
                    f'-DPRIVATE_VERSION="IBVERBS_PRIVATE_{PABI}"', HERE / "layout_shim.c"],
                   check=True, timeout=60)
    return library, wrong


def expect_no_device(result):
    """ibv_devices lists nothing, which is no failure."""
    expect_success(result)
    assert "simhca" not in result.stdout, result


def refusals(result):
    return [line for line in result.stderr.splitlines() if line.startswith("simhca:")]


def test_another_layout(launcher, shim):
    """The line names what differs, for which releases it was built, and what to do."""
    library, wrong = shim
    result = launcher.run(SIMHCA, "run", "--private", "--", "ibv_devices", LD_PRELOAD=str(library))
    expect_no_device(result)
    line, = refusals(result)
    assert re.fullmatch(rf"simhca: built for rdma-core {releases()}, but /\S+/libibverbs\.so\S* has "
                        rf"another {wrong}: build simhca on this system, with the headers "
                        r"\(libibverbs-dev, rdma-core-devel\) of this libibverbs", line), result


def test_the_same_layout(launcher, tmp_path):
    """A shim that alters nothing changes nothing: the tests above fail for their reason alone."""
    (tmp_path / "empty.c").write_text("int nothing;\n")
    library = tmp_path / "empty.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "empty.c"], check=True,
                   timeout=60)
    result = launcher.run(SIMHCA, "run", "--private", "--", "ibv_devices", LD_PRELOAD=str(library))
    assert "simhca0" in expect_success(result).stdout and result.stderr == "", result


def test_programs_go_on(launcher, shim):
    """A program that needs a device says that there is none; it does not crash."""
    result = launcher.run(SIMHCA, "run", "--private", "--", "ibv_rc_pingpong",
                          LD_PRELOAD=str(shim[0]))
    assert result.status == 1 and "No IB devices found" in result.stderr, result
    assert len(refusals(result)) == 1, result


def test_another_private_abi(launcher, tmp_path):
    """A provider for another number: the dynamic linker refuses, and libibverbs tells."""
    for directory in "bin", "lib":
        (tmp_path / directory).mkdir()
    for program in "simhca", "simhcad":
        shutil.copy(BUILD / "bin" / program, tmp_path / "bin")
    for library in (BUILD / "lib").glob("libsimhca*.so"):
        shutil.copy(library, tmp_path / "lib")
    provider = tmp_path / "lib" / PROVIDER.name
    other = f"IBVERBS_PRIVATE_{int(PABI) - 1}".encode()
    text = provider.read_bytes()
    assert f"IBVERBS_PRIVATE_{PABI}".encode() in text
    provider.write_bytes(text.replace(f"IBVERBS_PRIVATE_{PABI}".encode(), other))

    result = launcher.run(tmp_path / "bin" / "simhca", "run", "--private", "--", "ibv_devices")
    expect_no_device(result)
    warning, = [line for line in result.stderr.splitlines() if "couldn't load driver" in line]
    assert provider.name in warning and other.decode() in warning, result
