# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Who may carry messages to whom is the kernel's to say (ptrace(2), Yama): it is told when it says no, and
SIMHCA_PTRACER asks for more. There need not be a Yama here: strace has the kernel's part.
"""
import pathlib
import shutil

import pytest

from common import TIME_LIMIT, SIMHCA, Device, expect_success, new_port, wait_until

YAMA = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


@pytest.fixture(scope="module")
def carrying():
    """A device whose programs carry messages by themselves."""
    with Device("ethernet", "--daemon-option", "fast-path=on") as device:
        yield device


def calls(device, path, **variables):
    argv = ["strace", "-f", "-e", "trace=prctl", "-o", path, "ibv_devinfo"]
    expect_success(device.run(*argv, **variables))
    return [line for line in path.read_text().splitlines() if "PR_SET_PTRACER" in line]


def test_all_processes_are_named(carrying, tmp_path):
    """When the program is asked to; otherwise the daemon alone is, and where Yama is there only."""
    call, = calls(carrying, tmp_path / "any", SIMHCA_PTRACER="any")
    assert "prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY" in call
    for value in "", "none", "anybody":
        others = calls(carrying, tmp_path / "other", SIMHCA_PTRACER=value)
        assert all(f"PR_SET_PTRACER, {carrying.pid}" in other for other in others)
        assert len(others) == (YAMA.exists() and YAMA.read_text().strip() == "1")


@pytest.mark.parametrize("error, text", [("EACCES", "Permission denied"),
                                         ("EPERM", "Operation not permitted")])
def test_who_is_refused_the_memory_of_a_peer(carrying, tmp_path, error, text):
    """It works all the same, by the daemon; and status says why."""
    argv = ["ibv_rc_pingpong", "-g", 0, "-p", new_port(), "-n", 10**8]
    server = carrying.start(*argv)
    wait_until(lambda: carrying.objects()["contexts"] == 1, TIME_LIMIT, "the server has the device")
    memory = f"/proc/{server.pid}/mem"
    carrying.start("strace", "-f", "-o", tmp_path / "calls", "-P", memory, "-e", "trace=openat",
                   "-e", f"inject=openat:error={error}", *argv, "localhost")

    def contexts():
        return carrying.status()["devices"][0]["context"]

    def works():
        return [one for one in contexts() if one["past"] and one.get("not_attached") == text]

    wait_until(works, TIME_LIMIT, "who is refused has said so")
    refused, = works()
    assert refused["pid"] != server.pid
    assert [one.get("not_attached") for one in contexts() if one["pid"] == server.pid] == [None]
    assert f'"{memory}", O_RDWR|O_CLOEXEC) = -1 {error}' in (tmp_path / "calls").read_text()
    shown = expect_success(carrying.tool.run(SIMHCA, "status")).stdout
    line = (f"  context {refused['id']}, ibv_rc_pingpong[{refused['pid']}]: the daemon carries its messages, "
            f"as the kernel keeps it from the memory of a peer: {text}")
    yama = " (Yama's ptrace_scope is 1: SIMHCA_PTRACER=any, see simhca(1))"
    assert line + (yama if YAMA.exists() and YAMA.read_text().strip() == "1" else "") in shown.splitlines()
    carrying.kill_programs()
    carrying.expect_idle()


def test_nobody_is_refused(carrying):
    """Nothing is said of programs that reach each other."""
    argv = ["ibv_rc_pingpong", "-g", 0, "-p", new_port(), "-n", 10**8]
    carrying.start(*argv)
    wait_until(lambda: carrying.objects()["contexts"] == 1, TIME_LIMIT, "the server has the device")
    carrying.start(*argv, "localhost")
    wait_until(lambda: carrying.objects()["carried"] == 2, TIME_LIMIT, "they carry messages themselves")
    assert "keeps it from" not in expect_success(carrying.tool.run(SIMHCA, "status")).stdout
    carrying.kill_programs()
