# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Documentation/mistakes.md: each row whose test is `test_a_mistake` is a mistake that programs/mistakes.c
makes, with the status or errno that it then gets, and what `--explain` says of it. Those with rdma_cm
are of programs/cm_mistakes.c.
"""
import errno
import os
import re
import subprocess

import pytest

from common import HERE, SIMHCA, Device, expect_success, wait_until
from middleware import compiled

PAGE = HERE.parent.parent / "Documentation/mistakes.md"
SOURCE = HERE.parent / "programs/mistakes.c"
CM_SOURCE = HERE.parent / "programs/cm_mistakes.c"


def rows(test="test_a_mistake"):
    """[(name, what hardware shows, what is said)] of the sections that name this test in their head."""
    found, ours = [], False
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            ours = False
        elif f"`{test}`" in line:
            ours = True
        elif ours and not line.startswith("|---"):
            found.append((cells[3].strip("`[] "), cells[1].strip("`"), cells[2]))
    return found


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("mistakes"), SOURCE, "-D_GNU_SOURCE", "-libverbs")


# What was moved into a file is there when its owner has unmapped it, as with a NIC.
OF_PRIVATE_MEMORY = "unmapped_buffer", "unmapped_receive"
STAYS = pytest.mark.private_memory("it is about memory that was not moved")


@pytest.mark.parametrize("name, shown, text", [pytest.param(*row, id=row[0], marks=STAYS if row[0] in OF_PRIVATE_MEMORY else ())
                                               for row in rows()])
def test_a_mistake(launcher, program, name, shown, text):
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--devices", 2, "--explain", "--", program, name))
    story = [line for line in result.stderr.splitlines() if not line.startswith("simhcad: ")]
    assert len([line for line in story if line and line[0] != " "]) == 1, result
    shown = os.strerror(getattr(errno, shown)) if shown.startswith("E") else shown
    assert story[0].endswith(f": {shown}"), result
    said = re.escape(text).replace(re.escape("..."), ".*")
    assert re.search(said, "\n".join(story)), result
    # A verb that is refused has its hint in the same line.
    assert " is refused: " in story[0] or any(line.startswith("  try:  ") for line in story), result


@pytest.mark.parametrize("name, shown, text", [pytest.param(*row, id=row[0]) for row in rows("test_a_mistake_on_infiniband")])
def test_a_mistake_on_infiniband(launcher, program, name, shown, text):
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--link-layer", "ib", "--explain", "--", program, name))
    story = result.stderr.split("\n", 1)
    assert story[0].endswith(f": {os.strerror(getattr(errno, shown)) if shown.startswith('E') else shown}"), result
    assert re.search(re.escape(text).replace(re.escape("..."), ".*"), result.stderr), result


def test_an_offset_that_is_one(launcher, program):
    """Of a region that takes offsets, an access that is only too long is told as that."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", program, "past_zero_based"))
    assert "looks like" not in result.stderr and "  usually:" in result.stderr, result


def test_the_length_of_a_bind(launcher, program):
    """It is that of the window, and no sum of SGEs."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", program, "bind_past_the_region"))
    assert " BIND_MW of 8192 bytes, wr_id 1," in result.stderr, result


def test_a_region_without_an_end(launcher, program):
    """A null MR takes any address, and has no length to tell."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", program, "null_mr"))
    assert re.search(r"\n  looked at:  null MR, key 0x[0-9a-f]+: all addresses, LOCAL_WRITE, PD \d+\n", result.stderr), result


def test_a_story_is_one_write(launcher, program):
    """Two programs have one pipe, which keeps apart what each call of write() has brought: no lines mix."""
    reading, writing = os.pipe2(os.O_DIRECT)
    runs = [subprocess.Popen([SIMHCA, "run", "--private", "--explain", "--", program, "receive_too_short"],
                             env=launcher.env, stderr=writing) for _ in range(2)]
    os.close(writing)
    packets = list(iter(lambda: os.read(reading, 65536).decode(), ""))
    os.close(reading)
    assert [run.wait() for run in runs] == [0, 0]
    assert len(packets) == 2, packets
    for packet in packets:
        assert re.fullmatch(r"[0-9:.]+ mistakes\[\d+\].*\n(  [a-z ]+: .*\n){4,}", packet), packet
        assert packet.splitlines()[-1].startswith("  try:  "), packet


@pytest.fixture(scope="module")
def cm_program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("cm"), CM_SOURCE, "-D_GNU_SOURCE", "-libverbs", "-lrdmacm")


@pytest.mark.parametrize("name, text", [pytest.param(name, text, id=name)
                                        for name, _, text in rows("test_a_mistake_with_rdma_cm")])
def test_a_mistake_with_rdma_cm(launcher, cm_program, name, text):
    """The program itself looks at the event, or at the errno. What is said comes with its last story."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", cm_program, name))
    said = re.findall("^  (?:because|looks like): +(.*)$", result.stderr, re.M)
    if name.startswith("backlog"):  # where the machine is slow, its requests wait for long as well
        said = [line for line in said if "backlog" in line]
        assert len(said) == (1 if name == "backlog" else 2), result
    assert re.search(re.escape(text).replace(re.escape("..."), ".*"), said[-1]), result


def test_who_waits_for_a_server(cm_program):
    """The run of a client that waits tells who leaves it waiting."""
    with Device("ethernet") as device:
        server = device.start(SIMHCA, "run", "--", cm_program, "serve")
        wait_until(lambda: "serves" in server.stdout, 20, "it serves")
        client = device.run(SIMHCA, "run", "--explain", "--", "timeout", "5", "rping", "-c", "-C", "1", "-a",
                            "127.0.0.1", "-p", "7471")
        assert client.status == 124, client
        head, because, waiting = client.stderr.splitlines()[:3]
        assert re.fullmatch(r"[0-9:.]+ cm_mistakes\[\d+\] leaves a request to connect unanswered", head), client
        assert "was not fetched by rdma_get_cm_event() so far" in because
        assert re.fullmatch(r"  waiting:    rping\[\d+\], in or after rdma_connect\(\)", waiting)
        server.kill()


@pytest.mark.parametrize("how", ["answers_late", "end_answered_late"])
def test_who_answers_late(launcher, cm_program, how):
    """What was said while the peer waited is taken back."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", cm_program, how))
    assert result.stderr == "", result


def test_each_mistake_with_rdma_cm_has_a_row():
    made = set(re.findall(r'is\("(\w+)"\)', CM_SOURCE.read_text()))
    assert made == {name for name, _, _ in rows("test_a_mistake_with_rdma_cm")}


def test_each_mistake_of_the_program_has_a_row():
    made = set(re.findall(r'is\("(\w+)"\)', SOURCE.read_text()))
    assert made == {name for name, _, _ in rows() + rows("test_a_mistake_on_infiniband")}
    lines = PAGE.read_text().splitlines()
    # A head is not one of them; it stands above the line of dashes.
    assert sum(line.startswith("| ") and not after.startswith("|---")
               for line, after in zip(lines, [*lines[1:], ""])) >= 60
