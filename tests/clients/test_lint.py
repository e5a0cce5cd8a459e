# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`--lint`: each kind is told of a program that has it, and not of one that has not."""
import json
import re
import subprocess

import pytest

from common import HERE, SIMHCA, Device, expect_success, wait_until

PYTHON = "/usr/bin/python3"
LEGAL = HERE / "legal.py"
KINDS = {
    "never_polled": r"CQ \d+: it holds 1 completion, and was never polled",
    "late_receive": r"QP 0x\w+: a message came before any receive was posted, .*",
    "rnr": r"QP 0x\w+: \d+ RNR NAKs? of its peer cost \d+ us of waiting",
    "registrations": r"42 regions were registered for 40 messages",
    "cq_size": r"CQ \d+: (\d+) of its \d+ entries were in use at once, and its QPs may post \d+",
    "unsignaled": r"QP 0x\w+: (\d+) sends in a row had no completion, and its queue takes \1",
    "requests_of_mr": r"MR 0x\w+ was deregistered with 1 send request under way, the first of QP 0x\w+, wr_id 7",
    "requests_of_qp": r"QP 0x\w+ was destroyed with 1 send request under way, which have no completion now",
    "other_pd": r"QP 0x\w+: its datagrams go by an address handle of another protection domain",
    "no_sge": r"QP 0x\w+: the request of wr_id 7 has an sg_list, and its num_sge is 0: it carries nothing",
    "srq_limit": r"SRQ \d+: ibv_create_srq\(\) was given srq_limit 3 and ignores it, and no limit was set since",
    "unknown_access": r"QP 0x\w+: bit 30 of its qp_access_flags is no IBV_ACCESS flag",
    "path_mtu": r"QP 0x\w+: its path_mtu is 4096 bytes, and ibv_query_port\(\) was not asked what the port has",
    "forked": r"QP 0x\w+: process \d+ posts to it, a child of the one that made it",
    "memlock": r"69632 bytes were registered at once, in 3 regions, and RLIMIT_MEMLOCK is 65536",
    "empty_region": r"MR 0x\w+: it has 0 bytes, at 0x\w+000, where a page begins",
    "file_mapping": r"MR 0x\w+: its memory at 0x\w+000 is a shared mapping of the file /\S+",
    "rd_atomic": r"QP 0x\w+: its max_rd_atomic is 4, and max_dest_rd_atomic of its peer, QP 0x\w+, is 1",
    "own_peer": r"QP 0x\w+ is connected to itself: dest_qp_num and the address are its own",
    "no_fence": r"QP 0x\w+: RDMA WRITE of wr_id 9 takes what RDMA READ of wr_id 7 brings, and has no fence",
    "early_inline": r"QP 0x\w+: the inline data of wr_id 9 were copied before RDMA READ of wr_id 7, which brings them, had completed",
    "overwritten": r"QP 0x\w+: the message of receive 0 was overwritten by that of receive 1 before its completion was polled",
    "changed": r"QP 0x\w+: the buffer of wr_id 7, SEND of 64 bytes at 0x\w+, was changed before its completion was polled",
    "stale_memory": r"MR 0x\w+: its memory at 0x\w+000 was unmapped, moved or dropped while it was registered, and used after that",
    "moved_in_use": r"MR 0x\w+: another thread wrote to its memory at 0x\w+000 while ibv_reg_mr\(\) moved it",
    "moved_and_gone": r"MR 0x\w+: of its memory at 0x\w+000 8192 of 32768 bytes were unmapped, or replaced, while it was registered",
    "unused_access": r"MR 0x\w+, 4096 bytes: REMOTE_READ was never used",
    "unused_qp": r"QP 0x\w+ was in RTS, and nobody used it",
    "not_destroyed": r"at its end it had 2 QPs, 1 CQ, 1 MR, 1 PD",
}


# What a kind needs of the daemon.
OPTIONS = {kind: ["--shared-memory", "on"] for kind in ("moved_in_use", "moved_and_gone")}
NOISE = ["unused_access", "not_destroyed"]  # last, and once
NOTE = re.compile(r"lint: (?:python3|threads_at_once|group_member)\[\d+\], (\w+): (.*?)(?: \(and (\d+) more\))?\n"
                  r"(?:  hardware:   .{10,}\n)?  try:        .{10,}\n")


def notes_of(launcher, *command, options=()):
    """[(kind, text, how many more)] of programs that have run."""
    text = launcher.run(SIMHCA, "run", "--private", "--lint", *options, "--", *command).stderr
    text = re.sub(r"^simhca run: 1 work request failed .*\n", "", text)
    notes, at = [], 0
    while text.startswith("lint: ", at):
        note = NOTE.match(text, at)
        assert note, text
        notes.append((note.group(1), note.group(2), int(note.group(3) or 0)))
        at = note.end()
    assert at == len(text), text
    return notes


def lint(launcher, *arguments, options=()):
    """{kind: text} of a program that has run."""
    notes = notes_of(launcher, PYTHON, LEGAL, *arguments, options=options)
    kinds = [kind for kind, _, _ in notes]
    assert kinds == sorted(kinds, key=NOISE.__contains__), kinds
    return {kind: text for kind, text, _ in notes}


STAYS = pytest.mark.private_memory("it is about memory that was not moved")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=STAYS) if kind == "stale_memory" else kind for kind in KINDS])
def test_each_kind(launcher, kind):
    if kind == "file_mapping" and "tmpfs" in subprocess.run(["stat", "-f", "-c", "%T", "/var/tmp"], capture_output=True, text=True).stdout:
        pytest.skip("/var/tmp is of tmpfs")
    options = OPTIONS.get(kind, ())
    assert re.fullmatch(KINDS[kind], lint(launcher, kind, options=options)[kind])
    assert kind not in lint(launcher, kind, "good", options=options)


@pytest.mark.parametrize("kind", ["changed", "requests_of_mr"])
def test_work_requests_that_are_named_by_addresses(launcher, kind):
    """As in stories."""
    assert re.fullmatch(KINDS[kind].replace("wr_id 7", "wr_id 0x7f0012345678"), lint(launcher, f"{kind}_by_address")[kind])


def test_address_handles_by_the_other_way_of_posting(launcher):
    assert re.fullmatch(KINDS["other_pd"], lint(launcher, "other_pd_extended")["other_pd"])
    assert "other_pd" not in lint(launcher, "other_pd_extended", "good")


def test_inline_data_by_the_other_way_of_posting(launcher):
    assert re.fullmatch(KINDS["early_inline"], lint(launcher, "early_inline_extended")["early_inline"])
    assert "early_inline" not in lint(launcher, "early_inline_extended", "good")


def test_files_whose_pages_can_be_pinned(launcher):
    """Those of tmpfs; others if the region is only read, not shared, or on-demand."""
    for how in ("tmpfs", "only_read", "private", "on_demand"):
        assert "file_mapping" not in lint(launcher, f"file_mapping_{how}")


def test_an_empty_region_inside_a_page(launcher):
    """One page is pinned for it."""
    assert "empty_region" not in lint(launcher, "empty_region_inside_a_page")


def compiled(directory, name):
    program = directory / name
    subprocess.run(["cc", "-std=gnu11", "-g", "-Wall", "-Werror", "-pthread", "-o", program, HERE / f"{name}.c", "-lrdmacm", "-libverbs"],
                   check=True)
    return program


def test_a_group_of_ipv6(launcher, tmp_path):
    """Linux joins none by RoCE v2."""
    program = compiled(tmp_path, "group_member")
    text = {kind: text for kind, text, _ in notes_of(launcher, program, "ipv6")}["ipv6_group"]
    assert re.fullmatch(r"QP 0x\w+ is attached to ff15::1234, a group of IPv6 that rdma_cm has joined", text)
    for command, options in ([program, "ipv6"], ["--link-layer", "ib"]), ([program, "joined"], []), ([program], []):
        assert "ipv6_group" not in [kind for kind, _, _ in notes_of(launcher, *command, options=options)]


def test_a_group_that_was_not_joined(launcher, tmp_path):
    """On InfiniBand, where the subnet manager sets up switches for its members; on Ethernet nobody does."""
    program = compiled(tmp_path, "group_member")
    infiniband = ["--link-layer", "ib"]
    text = {kind: text for kind, text, _ in notes_of(launcher, program, options=infiniband)}["not_joined"]
    assert re.fullmatch(r"QP 0x\w+ is attached to the group ff12:401b:ffff::1234, and no port has joined it", text)
    for command, options in ([program, "joined"], infiniband), ([program], infiniband + ["--sm", "off"]), ([program], []):
        assert "not_joined" not in [kind for kind, _, _ in notes_of(launcher, *command, options=options)]


@pytest.fixture(scope="module")
def threads_at_once(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("threads"), "threads_at_once")


@pytest.mark.parametrize("what, text", {
    "sends": r"QP 0x\w+: two threads post sends to it at once, and it is of a thread domain",
    "receives": r"QP 0x\w+: two threads post receives to it at once, and it is of a thread domain",
    "shared receives": r"SRQ of \d+ receives: two threads post to it at once, and it is of a thread domain",
    "batches": r"QP 0x\w+: two threads post sends to it at once, and it is of a thread domain",
    "polls of several": r"CQ of \d+ entries: two threads poll it at once, and it was created for a single thread",
    "polls": r"CQ of \d+ entries: two threads poll it at once, and it was created for a single thread",
}.items())
def test_two_threads_without_a_lock(launcher, threads_at_once, what, text):
    notes = {kind: text for kind, text, _ in notes_of(launcher, threads_at_once, what)}
    assert re.fullmatch(text, notes["threads"])
    assert "threads" not in [kind for kind, _, _ in notes_of(launcher, threads_at_once, what, "good")]


def test_a_child_that_polls(launcher):
    text = KINDS["forked"].replace("posts to", "polls for")
    assert re.fullmatch(text, lint(launcher, "forked_poll")["forked"])
    assert "forked" not in lint(launcher, "forked_poll", "good")


def test_a_limit_of_an_srq_that_is_kept(launcher):
    assert re.fullmatch(KINDS["srq_limit"], lint(launcher, "srq_limit_kept")["srq_limit"])
    assert "srq_limit" not in lint(launcher, "srq_limit_kept", "good")


def test_reads_at_once_whichever_end_is_first(launcher):
    """Of two connections, one was made from either end; each is in a context of its own."""
    kinds = [kind for kind, _, _ in notes_of(launcher, PYTHON, LEGAL, "rd_atomic")]
    assert kinds.count("rd_atomic") == 2


@pytest.mark.parametrize("how", ["by_a_receive", "by_a_write", "after_an_answer"])
def test_buffers_that_may_change(launcher, how):
    """By the device, or as the program knows by another completion that they were sent."""
    assert "changed" not in lint(launcher, how)


@STAYS
@pytest.mark.parametrize("how", ["munmap", "mremap"])
def test_memory_that_has_left(launcher, how):
    """Besides what is dropped by madvise(); and only if it is used afterwards."""
    assert re.fullmatch(KINDS["stale_memory"], lint(launcher, how)["stale_memory"])
    assert "stale_memory" not in lint(launcher, how, "good")
    assert "stale_memory" not in lint(launcher, "unused_after")


def test_memory_that_is_written_to_while_it_moves_back(launcher):
    options = OPTIONS["moved_in_use"]
    text = KINDS["moved_in_use"].replace("ibv_reg_mr", "ibv_dereg_mr")
    assert re.fullmatch(text, lint(launcher, "moved_in_use_back", options=options)["moved_in_use"])
    assert "moved_in_use" not in lint(launcher, "moved_in_use_back", "good", options=options)


def test_memory_that_others_have_replaced(launcher):
    assert re.fullmatch(KINDS["moved_and_gone"], lint(launcher, "moved_and_replaced", options=OPTIONS["moved_and_gone"])["moved_and_gone"])


@STAYS
def test_memory_that_is_not_moved(launcher):
    """As it is not whole pages, or nobody has asked for that."""
    assert not set(OPTIONS) & set(lint(launcher, "moved_in_use_not_whole_pages", options=OPTIONS["moved_in_use"]))
    for kind in OPTIONS:
        assert not set(OPTIONS) & set(lint(launcher, kind))


def test_no_noise_after_a_failure(launcher):
    """A program that ends for an error cannot have used or destroyed everything."""
    assert not set(NOISE) & set(lint(launcher, "failure"))
    assert set(NOISE) <= set(lint(launcher, "failure", "good"))


def test_noise_of_several_programs_is_told_once(launcher):
    """With how many more there are."""
    notes = notes_of(launcher, "sh", "-c", f"for i in 1 2 3; do {PYTHON} {LEGAL} not_destroyed; done")
    assert [more for kind, _, more in notes if kind == "not_destroyed"] == [2]


def test_a_program_that_runs(launcher):
    """It is looked at when somebody asks; and nothing is said unasked."""
    with Device("ethernet") as device:
        program = device.start(PYTHON, HERE / "queues.py")
        wait_until(lambda: program.stdout.endswith("\n"), 20, "it has made its queues")
        text = expect_success(device.run(SIMHCA, "explain", "--lint")).stdout
        assert f"lint: python3[{program.pid}], " in text
        report = json.loads(expect_success(device.run(SIMHCA, "explain", "--lint", "--json")).stdout)
        kinds = {note["kind"] for note in report["lint"]["notes"]}
        assert "never_polled" in kinds and "not_destroyed" not in kinds
        assert report["lint"]["live"] == 1
        assert "lint:" not in expect_success(device.run(SIMHCA, "explain")).stdout
        program.kill()
    assert "lint:" not in expect_success(launcher.run(SIMHCA, "run", "--private", "--", PYTHON, LEGAL,
                                                      "unused_qp")).stderr


@pytest.mark.parametrize("option, variable, value", [
    ("--lint", "SIMHCA_POISON_WC", "on"),
    ("--lint", "SIMHCA_SCATTER_TO_CQE", "off"),
    ("--explain", "SIMHCA_SCATTER_TO_CQE", "off"),
])
def test_what_the_provider_is_told(launcher, option, variable, value):
    """Unless somebody has said otherwise."""
    for before, inside in ({}, value), ({variable: "other"}, "other"):
        result = launcher.run(SIMHCA, "run", "--private", option, "--", "sh", "-c",
                              f"echo ${variable}", **before)
        assert result.stdout == inside + "\n", result
