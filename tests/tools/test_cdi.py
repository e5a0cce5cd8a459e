# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""simhca cdi: what it describes. tests/packages/test_containers.py has containers by it."""

import json
import pathlib
import stat


def mounts_of(text):
    description = json.loads(text)
    assert description["kind"] == "simhca.dev/hca" and description["cdiVersion"] == "0.3.0"
    device, = description["devices"]
    assert device["name"] == "all"
    return {mount["containerPath"]: mount for mount in device["containerEdits"]["mounts"]}


def test_mounts(tool):
    """All exist, are files but for the runtime directory, and that alone can be written to."""
    tool.runtime.mkdir(exist_ok=True)
    result = tool("cdi")
    mounts = mounts_of(result.stdout)
    assert mounts.pop("/run/simhca") == {"hostPath": str(tool.runtime), "containerPath": "/run/simhca",
                                         "options": ["bind", "rw", "nosuid", "nodev"]}
    for mount in mounts.values():
        assert pathlib.Path(mount["hostPath"]).is_file() and not pathlib.Path(mount["hostPath"]).is_symlink()
        assert mount["options"] == ["bind", "ro", "nosuid", "nodev"]
    # What the two files of /etc name is mounted there.
    preload = pathlib.Path(mounts["/etc/ld.so.preload"]["hostPath"]).read_text().strip()
    assert preload in mounts
    driver = pathlib.Path(mounts["/etc/libibverbs.d/simhca.driver"]["hostPath"]).read_text().split()
    assert driver[0] == "driver" and any(path.startswith(f"{driver[1]}-rdmav") for path in mounts)


def test_says_that_no_daemon_runs(tool):
    """The directory is there all the same, for containers that are started before the daemon is."""
    result = tool("cdi")
    assert result.returncode == 0 and "no daemon runs in" in result.stderr
    assert stat.S_IMODE(tool.runtime.stat().st_mode) == 0o700


def test_output(tool, tmp_path):
    file = tmp_path / "simhca.json"
    file.write_text("{")
    assert tool("cdi", "--output", file).stdout == ""
    assert mounts_of(file.read_text()) and stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_refused(tool, tmp_path):
    result = tool("cdi", "--output", tmp_path / "is" / "not" / "there")
    assert result.returncode == 1 and "No such file or directory" in result.stderr
    result = tool("cdi", "--install", "--output", tmp_path / "file")
    assert result.returncode == 2 and "give one of the two" in result.stderr


def test_copies(tool, tmp_path):
    """For a host without simhca: what is mounted are copies, which replace those of before and leave containers theirs."""
    copies = tmp_path / "copies"
    mounts = mounts_of(tool("cdi", "--copy-to", copies).stdout)
    mounts.pop("/run/simhca")
    preload = pathlib.Path(mounts["/usr/lib/simhca/libsimhca-preload.so"]["hostPath"])
    assert preload.read_bytes() == (tool.prefix / "lib/libsimhca-preload.so").read_bytes()
    hosts = sorted(mount["hostPath"] for mount in mounts.values())
    assert hosts == sorted(map(str, copies.iterdir())) and len(hosts) == len(mounts)
    before = preload.stat()
    with open(preload, "rb") as opened:  # as a container has it
        preload.write_bytes(b"older")
        assert mounts_of(tool("cdi", "--copy-to", copies).stdout)
        assert opened.read() == b"older" and preload.stat().st_size == before.st_size
    assert stat.S_IMODE(preload.stat().st_mode) == 0o644 and len(list(copies.iterdir())) == len(hosts)


def test_copies_are_refused(tool, tmp_path):
    result = tool("cdi", "--copy-to", "here")
    assert result.returncode == 1 and "must be an absolute path" in result.stderr
    result = tool("cdi", "--copy-to", tmp_path / "is" / "not" / "there")
    assert result.returncode == 1 and "No such file or directory" in result.stderr
