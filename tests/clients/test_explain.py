# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca explain`: what failed, both ends' view of it, why, and what followed."""
import ctypes
import json
import re
import signal
import textwrap
import xml.etree.ElementTree

import pytest

from common import (HERE, SIMHCA, Device, Launcher, blocks, expect_success, has_net_raw, is_listened_on, new_port,
                    wait_until)
from middleware import compiled
from releases import lacks

PYTHON = "/usr/bin/python3"
FAILING = HERE / "failing.py"
RECEIVES = 12  # of failing.py
OF_PROGRAM = 64  # FAILURES_OF_PROGRAM
SLEEPERS = 8  # at once


def run(launcher, case, *options, **variables):
    return expect_success(launcher.run(SIMHCA, "run", "--private", *options, "--", PYTHON, FAILING,
                                       case, **variables))


def story(launcher, case):
    """The one story of a case: its headline, and what its lines say by their first word."""
    text = run(launcher, case, "--explain").stderr
    lines, *more = blocks(re.sub("^simhcad: .*\n", "", text))
    assert not more, text
    return lines[0], [line.strip().split(None, 1) if not line.startswith("  refused by")
                      else ["refused by:", line] for line in lines[1:]]


def said(lines, word):
    return [text for first, text in lines if first == word]


def test_a_refused_write(launcher):
    """The responder's numbers, the key's entry, and the flushes of both QPs under one cause."""
    head, lines = story(launcher, "past_end")
    assert re.fullmatch(r"[0-9:.]+ python3\[\d+\], QP 0x\w+ \(RC\): RDMA_WRITE of 64 bytes, "
                        r"wr_id 1000, to QP 0x\w+: REM_ACCESS_ERR", head)
    assert said(lines, "because:") == [
        "the access ends 1 byte after the region (KEY_PAST_END, vendor_err 20)"]
    assert len(said(lines, "refused by:")) == 1
    assert any(re.search(r"4096 bytes at 0x\w+, LOCAL_WRITE\|REMOTE_WRITE, PD \d+", " ".join(line))
               for line in lines)
    event, flushes = said(lines, "then:")
    assert re.fullmatch(r"python3\[\d+\], QP 0x\w+: IBV_EVENT_QP_ACCESS_ERR", event)
    assert flushes.endswith(f": {RECEIVES} work requests are flushed")
    assert said(lines, "rule:") and said(lines, "usually:") and said(lines, "try:")


README_STORY = re.compile(r"^[0-9:.]+ ibv_rc_pingpong\[.*\n(?:  .*\n)+", re.M)


def without_numbers(text):
    """But those that are the same each time."""
    return re.sub(r"^[0-9:.]+ |\[\d+\]|0x\w+", "", text)


@pytest.mark.parametrize("ends", [(True, False), (False, True)], ids=["server", "client"])
def test_sizes_that_differ(launcher, ends, tmp_path):
    """
    The README's example is what one sees: two `simhca run`, ibv_rc_pingpong, misused. Whichever of them
    explains, it has both ends' view, and says it in one piece.
    """
    shown, = README_STORY.findall((HERE.parent.parent / "README.md").read_text())
    port = str(new_port())
    words = [[SIMHCA, "run", "--runtime-dir", tmp_path, *(["--explain"] if explains else []), "--",
              "ibv_rc_pingpong", "-g", "0", "-p", port, "-s", size] for explains, size in zip(ends, ("1024", "4096"))]
    server = launcher.start(*words[0])
    wait_until(lambda: is_listened_on(port), 10, "the server listens")
    client = launcher.run(*words[1], "localhost")
    text = (server.finish() if ends[0] else client).stderr
    told, = blocks(text[text.index(next(re.finditer(r"^[0-9:.]+ ", text, re.M))[0]):])
    assert without_numbers("\n".join(told)) == without_numbers(textwrap.dedent(shown).rstrip())


DROPPED = {
    "qkey": ("the datagram has Q_Key 0x22222222, and its QP 0x11111111", "QKEY_MISMATCH, vendor_err 99"),
    "qkey_reversed": ("the datagram has Q_Key 0x04030201, and its QP 0x01020304, which is the same with its bytes reversed",
                      "QKEY_MISMATCH, vendor_err 99"),
    "qkey_controlled": ("the datagram has Q_Key 0x11111111, and its QP 0x80001234, whose highest bit has senders put their own "
                        "QP's in its place", "QKEY_MISMATCH, vendor_err 99"),
    "grh": ("the message has 64 bytes and 40 of its GRH, and the receive that was next 64, wr_id 2",
            "RECV_TOO_SHORT, vendor_err 70"),
    "no_receive": ("no receive was posted so far", "PEER_NOT_READY, vendor_err 97"),
}


def test_a_receive_of_an_xrc_srq(launcher, tmp_path):
    """An XRC target is no program's, but what it takes of an SRQ is its owner's, whose run tells of it."""
    run, port = [SIMHCA, "run", "--runtime-dir", tmp_path], new_port()
    pingpong = ["--", "ibv_xsrq_pingpong", "-g", 0, "-p", port]
    server = launcher.start(*run, *pingpong, "-s", 4096)
    wait_until(lambda: is_listened_on(port), 10, "the server listens")
    told = launcher.run(*run, "--explain", *pingpong, "-s", 1000, "localhost").stderr
    server.kill()
    assert re.search(r"because: +the message has 4096 bytes, and the receive that was next 1000, ", told), told
    assert re.search(r"refused by: ibv_xsrq_pingpo\[\d+\], QP 0x\w+ \(XRC_RECV\)\n", told), told
    assert re.search(r"then: +ibv_xsrq_pingpo\[\d+\], QP 0x\w+ \(XRC_RECV\): the receive that it had taken, .*: LOC_LEN_ERR", told), told


@pytest.fixture(scope="module")
def dropped(programs):
    return compiled(programs, HERE.parent / "programs/dropped.c", "-D_GNU_SOURCE", "-libverbs")


@pytest.mark.parametrize("fast_path", ["on", "off"])
@pytest.mark.parametrize("how", DROPPED)
def test_a_datagram_that_is_dropped(launcher, dropped, how, fast_path):
    """Its sender sees a success, and the receiver nothing: both are named, and three are one story."""
    if how == "qkey_controlled" and not has_net_raw():
        pytest.skip("such a Q_Key is for CAP_NET_RAW")
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--daemon-option", f"fast-path={fast_path}",
                                       "--explain", "--", dropped, how)).stderr
    (head, because, sender, *advice), = blocks(told)
    assert re.fullmatch(r"[0-9:.]+ dropped\[\d+\], QP 0x\w+ \(UD\): drops SEND of 64 bytes of QP 0x\w+, 3 times",
                        head), told
    assert because == "  because:    {} ({})".format(*DROPPED[how])
    assert re.fullmatch(r"  sent by:    dropped\[\d+\], QP 0x\w+, whose completion says SUCCESS", sender)
    assert [line.split(":")[0].strip() for line in advice] == ["rule", "usually", "try"]


LOST = {
    "no_such_qp": "the peer has no such QP",
    "qp_of_rc": "the peer's QP is of another type",
    "not_started": "the peer's QP is not in RTR or RTS yet",
    "no_port": "no port has this address",
    "group_without_members": "no QP of this daemon is attached to the group",
    "group_by_number": "the address is a multicast group's, whose QP number is 0xffffff",
    "port_as_group": "QP number 0xffffff is for multicast groups, and the address is no group's",
}


@pytest.mark.parametrize("fast_path", ["on", "off"])
@pytest.mark.parametrize("how", LOST)
def test_a_datagram_that_is_lost(launcher, dropped, how, fast_path):
    """Nobody has it, so the sender's own story is all there is."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--daemon-option", f"fast-path={fast_path}",
                                       "--explain", "--", dropped, how)).stderr
    (head, because, completion, *advice), = blocks(told)
    assert re.fullmatch(r"[0-9:.]+ dropped\[\d+\], QP 0x\w+ \(UD\): SEND of 64 bytes to QP 0x\w+ is lost, 3 times",
                        head), told
    assert because == f"  because:    {LOST[how]}"
    assert completion == "  completion: SUCCESS, as of all that was sent"
    assert [line.split(":")[0].strip() for line in advice] == ["rule", "usually", "try"]


@pytest.mark.parametrize("how, looks", [
    ("qpn_reversed", r"QP number 0x\w+ is 0x\w+ with its bytes reversed: .*"),
    ("no_qpn", "the QP number is 0, which is the port's own: it was not set, or not exchanged yet"),
])
def test_where_a_lost_datagram_was_to_go(launcher, dropped, how, looks):
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", dropped, how)).stderr
    assert re.search(f"^  looks like: {looks}$", told, re.M), told


LOST_DIAGRAM = """\
    |- SEND of 64 bytes ---------------------x|
    |                                         |  the peer has no such QP
    |  its completion says SUCCESS            |
    |  the same 3 times in all                |
"""


def test_a_diagram_of_a_lost_datagram(dropped):
    with Device("ethernet") as device:
        expect_success(device.run(dropped, "no_such_qp"))
        assert explain(device, "--diagram").split("\n", 1)[1] == LOST_DIAGRAM


def test_a_datagram_that_comes_too_early_is_lost(launcher, dropped):
    """Nobody waits for a receive then, as on RC: so lint does not say it."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--lint", "--", dropped, "no_receive")).stderr
    assert "a message came before any receive was posted, and was lost; its sender's completion says SUCCESS" in told


MIXED_UP = HERE.parent / "programs/mixed_up.c"
MIXUPS = {
    "own_key": "key 0x\\w+ is the sender's own, of its MR of 4096 bytes at 0x\\w+: the rkey to use is .*",
    "third_key": r"key 0x\w+ is of mixed_up\[\d+\], a third program, and not of the peer .*",
    "reversed_key": r"key 0x\w+ is the peer's 0x\w+ with its bytes reversed: .*",
    "own_address": r"address 0x\w+ is the sender's own, in its MR with key 0x\w+: .*",
    "reversed_address": r"address 0x\w+ is 0x\w+ with its bytes reversed: .*",
    "offset": "address 0x80 looks like an offset: the region begins at 0x\\w+, .*",
    "other_region": r"address 0x\w+ is in another MR of the peer's, whose key is 0x\w+: send both of one region",
    "peers_lkey": r"lkey 0x\w+ is of mixed_up\[\d+\]: an SGE takes the lkey .*",
    "reversed_lkey": r"lkey 0x\w+ is 0x\w+ with its bytes reversed: use it as it is, without htonl\(\)",
    "own_qpn": r"the QP is connected to itself: dest_qp_num is its own number, 0x\w+: exchange the numbers",
    "reversed_qpn": r"QP number 0x\w+ is 0x\w+ with its bytes reversed: .*",
}


@pytest.fixture(scope="module")
def mixed_up(programs):
    return compiled(programs, MIXED_UP, "-D_GNU_SOURCE", "-libverbs")


@pytest.mark.parametrize("how", MIXUPS)
def test_what_was_mixed_up(launcher, mixed_up, how):
    """The program's own key, address or QP number in place of the peer's, and bytes reversed."""
    result = launcher.run(SIMHCA, "run", "--private", "--explain", "--", mixed_up, how)
    assert result.status > 0, result
    told = re.findall("^  looks like: (.*)$", result.stderr, re.M)
    assert len(told) == 1 and re.fullmatch(MIXUPS[how], told[0]), result
    assert re.findall("^  (?:usually|try):.*$", result.stderr, re.M) == ["  try:        Correct what the line `looks like:` names."]


def test_what_is_only_too_long(launcher, mixed_up):
    """An offset that is one of the peer's region is not taken for one of the sender's own, which has the same."""
    result = launcher.run(SIMHCA, "run", "--private", "--explain", "--", mixed_up, "too_long")
    assert result.status > 0 and "looks like" not in result.stderr, result
    assert "\n  because:    the access ends 16 bytes after the region (" in result.stderr, result


def test_nothing_was_mixed_up(launcher, mixed_up):
    """And what is a plain fault is not taken for it."""
    expect_success(launcher.run(SIMHCA, "run", "--private", "--", mixed_up, "right"))
    for case in ("past_end", "old_key", "nobody", "own_buffer"):
        assert "looks like" not in run(launcher, case, "--explain").stderr


def test_no_receive(launcher):
    head, lines = story(launcher, "not_ready")
    assert head.endswith("RNR_RETRY_EXC_ERR")
    assert said(lines, "tried:") == ["once and 3 more (rnr_retry)"]
    assert re.fullmatch(r"queue:  python3\[\d+\], QP 0x\w+: 0 receives were posted until then(, 0 since)?",
                        said(lines, "its")[0])


def test_a_late_receive():
    """When the next one came, as its queue was looked at meanwhile."""
    with Device("ethernet") as device:
        expect_success(device.run(PYTHON, FAILING, "ready_too_late"))
        queue, = [failure["queue"] for failure in report(device) if "queue" in failure]
        assert queue["posted"] == 0 and 0.1 <= queue["next_after_s"] < 2, queue
        assert re.search(r"; the next one came after \d+ ms\n", device.tool.run(SIMHCA, "explain").stdout)


def test_a_late_receive_of_xrc(waits):
    """The queue is the SRQ that the request named."""
    with Device("ethernet") as device:
        program = device.start(waits, "given_up_xrc")

        def queues():
            return [failure["queue"] for failure in report(device) if "queue" in failure]

        wait_until(lambda: [queue for queue in queues() if "next_after_s" in queue], 30, "the next one is seen")
        queue, = queues()
        assert queue["pid"] == program.pid and queue["posted"] == 0 and queue["posted_since"] == 1, queue
        line = rf"  its queue:  waits\[{program.pid}\], SRQ {queue['srqn']}: 0 receives were posted until then, 1 since; the next one .*"
        assert re.search(f"^{line}$", device.tool.run(SIMHCA, "explain").stdout, re.M), queue
        program.kill()


def test_a_key_that_is_gone(launcher):
    """When it went, what it was, and which key the same memory has now."""
    result = run(launcher, "old_key", "--explain")
    old, new = result.stdout.split()
    was, = [line for line in result.stderr.splitlines() if line.startswith("  that was:")]
    assert f"by key {old}," in result.stderr
    assert re.fullmatch(r"  that was:   MR of 4096 bytes at 0x\w+, deregistered [0-9.e+-]+ (ms|s) before this;"
                        rf" the same memory has key {new} now: an old key is in use", was)


def test_an_arming_that_was_forgotten(device):
    """Who waits for an event that will not come is told so while it waits."""
    program = device.start(PYTHON, FAILING, "asleep", "60")

    def asleep():
        return [one for one in report(device) if one["kind"] == "sleep" and one["pid"] == program.pid]

    wait_until(asleep, 30, "it is seen")
    (one,) = asleep()
    assert re.fullmatch(r"CQ \d+ holds 2 completions, is not armed, .*", one["text"])
    story, = blocks(explain(device, "--pid", str(program.pid)))
    assert story[0].endswith("sleeps, and will not wake up") and "ibv_req_notify_cq" in story[2]
    program.kill()


WRITE = "waits for a completion, which the last message does not give it"
WRITTEN = ("the last message to its QP 0x\\w+ was RDMA_WRITE of 8 bytes, wr_id 0x2 of QP 0x\\w+, and has taken none of "
           "its 4 receives")
WAITS = {
    "ack_cq": ("sleeps, and will not wake up", "ibv_destroy_cq() of a CQ of 15 entries waits for ibv_ack_cq_events(): "
               "the program got 1 event of it, and has acknowledged 0"),
    "ack_qp": ("sleeps, and will not wake up", "ibv_destroy_qp() of 0x\\w+ waits for ibv_ack_async_event(): the "
               "program got 1 event of it, and has acknowledged 0"),
    "not_solicited": ("sleeps, and will not wake up", "CQ \\d+ holds 1 completion and is armed for solicited ones "
                      "only: who waits at its channel waits until a peer sends with IBV_SEND_SOLICITED"),
    "armed_late": ("sleeps, and will not wake up", "CQ \\d+ holds 1 completion and was armed only after that: who "
                   "waits at its channel waits for a further one"),
    "ack_twice": ("sleeps, and will not wake up", "ibv_destroy_cq() of a CQ of 15 entries waits for ibv_ack_cq_events(): "
                  "the program got 1 event of it, and has acknowledged 2"),
    "never_armed": ("sleeps, and will not wake up", "CQ \\d+ holds 1 completion, and was neither polled nor armed so "
                    "far: who waits at its channel waits for ever"),
    "no_channel": ("sleeps, and will not wake up", "CQ \\d+ holds 1 completion and was armed, but it was created without a "
                   "channel: no channel has an event of it"),
    "not_signaled": ("waits for a completion that it has not asked for", "the program polls CQ \\d+, which is empty: all "
                     "sends of its QP 0x\\w+ are done, and the last one, SEND of 8 bytes, wr_id 0x3, was not signaled"),
    "wrong_cq": ("waits for a completion at a CQ that has none", "the program polls CQ \\d+, which is empty: a receive "
                 "has completed in CQ \\d+, which it does not poll"),
    "wrong_cq_now_and_then": ("waits for a completion at a CQ that has none", "the program polls CQ \\d+, which is empty: a "
                              "receive has completed in CQ \\d+, which it does not poll"),
    "no_receive": ("waits for a receive of its peer", "SEND of 8 bytes, wr_id 0x3, of QP 0x\\w+ finds no receive, and "
                   "rnr_retry is 7: its peer is waits\\[\\d+\\], QP 0x\\w+"),
    "no_receive_xrc": ("waits for a receive of its peer", "SEND of 8 bytes, wr_id 0x3, of QP 0x\\w+ finds no receive, and "
                       "rnr_retry is 7: its peer is waits\\[\\d+\\], SRQ \\d+, by QP 0x\\w+"),
    "dropped_receives": ("waits for a receive of its peer", "SEND of 8 bytes, wr_id 0x3, of QP 0x\\w+ finds no receive, and "
                         "rnr_retry is 7: its peer is waits\\[\\d+\\], QP 0x\\w+, whose receives were dropped as it went "
                         "to RESET"),
    "dropped_sends": ("waits for what its QP has dropped", "the program polls CQ \\d+, which is empty: 2 sends of its QP "
                      "0x\\w+ were dropped when that went to RESET, and give no completion"),
    "destroyed_sender": ("waits for what went with its QP", "the program polls CQ \\d+, which is empty: 2 sends of QP 0x\\w+ had "
                         "no completion polled when that was destroyed, and give none any more"),
    "no_receives": ("waits for a completion, and has posted nothing", "the program polls CQ \\d+, which is empty: nothing is "
                    "posted that completes there: QP 0x\\w+ has no send and no receive"),
    "own_dropped_receives": ("waits for a completion, and has posted nothing", "the program polls CQ \\d+, which is empty: "
                             "nothing is posted that completes there: QP 0x\\w+ has no send and no receive; 4 receives were "
                             "dropped when the QP went to RESET"),
    "not_completed": ("sleeps, and will not wake up", "ibv_wr_start() of QP 0x\\w+ waits for ibv_wr_complete() or "
                      "ibv_wr_abort(): the ibv_wr_start() before it was not ended"),
    "not_completed_bind": ("sleeps, and will not wake up", "ibv_bind_mw() of QP 0x\\w+ waits for ibv_wr_complete() or "
                           "ibv_wr_abort(): the ibv_wr_start() before it was not ended"),
    "not_ended": ("sleeps, and will not wake up", "ibv_start_poll() of a CQ of 15 entries waits for ibv_end_poll(): the "
                  "ibv_start_poll() before it was not ended"),
    "polls_none": ("polls for no completions", "ibv_poll_cq() of a CQ of 15 entries, which holds a completion, is called with "
                   "num_entries 0, again and again"),
    "in_sqd": ("waits for what its QP has not begun", "the program polls CQ \\d+, which is empty: SEND of 8 bytes, wr_id 0x2, "
               "of QP 0x\\w+ is not begun, as the QP is in SQD"),
    "no_peer": ("waits for a message of a peer that is not there", "the program polls CQ \\d+, which is empty: QP 0x\\w+, "
                "whose 4 receives wait, is connected to QP 0x\\w+, which does not exist or has gone"),
    "peer_in_error": ("waits for a message of a peer that has failed", "the program polls CQ \\d+, which is empty: QP 0x\\w+, "
                      "whose 4 receives wait, is connected to QP 0x\\w+, which is in ERR: it has failed, or was disconnected"),
    "edge": ("sleeps while an event waits for it", "CQ \\d+ holds 1 completion and an event waits unread in its "
             "channel, while the program sleeps elsewhere"),
    "write_polled": (WRITE, "the program polls CQ \\d+, which is empty: " + WRITTEN),
    "read_polled": (WRITE, "the program polls CQ \\d+, which is empty: " + WRITTEN.replace("WRITE", "READ")),
    "write_waited": (WRITE, "the program waits at the channel of CQ \\d+, which is empty: " + WRITTEN),
}


@pytest.fixture(scope="module")
def waits(programs):
    return compiled(programs, HERE.parent / "programs/waits.c", "-D_GNU_SOURCE", "-libverbs", "-pthread")


@pytest.fixture(scope="module")
def sleeper(request, waits):
    """sleeper(how): what became of it. Some sleep beside it, which are asked for next."""
    launcher = Launcher()
    left = [item.callspec.params["how"] for item in request.session.items if item.originalname == "test_who_sleeps"]
    asleep = {}

    def result(how):
        while how not in asleep or (left and len(asleep) < SLEEPERS):
            one = left.pop(0) if left else how
            asleep[one] = launcher.start(SIMHCA, "run", "--private", "--explain", "--", "timeout", "6", waits, one)
        return asleep.pop(how).finish()

    yield result
    launcher.kill_programs()


@pytest.mark.parametrize("how", WAITS)
def test_who_sleeps(sleeper, how):
    """And is ended by a time limit: the run tells what it slept on; without --explain in a line."""
    head, because = WAITS[how]
    told = sleeper(how)
    assert told.status == 124, told
    last = blocks(told.stderr)[-1]
    assert re.fullmatch(rf"[0-9:.]+ waits\[\d+\] {head}", last[0]), told.stderr
    assert re.fullmatch("  because:    " + because.replace("(", r"\(").replace(")", r"\)"), last[1]), told.stderr
    assert [line.split(":")[0].strip() for line in last[2:]][-2:] == ["usually", "try"]
    assert head.startswith("sleeps") or "sleeps, and will not wake up" not in told.stderr, told.stderr


@pytest.mark.parametrize("timeout, line", [
    (0, "tries:      without end, as its timeout is 0"),
    (31, "waits:      8796 s (timeout 31) for an answer, each time, before it sends again")])
def test_nobody_answers_for_long(launcher, waits, timeout, line):
    """It is told before the program sees anything of it."""
    told = launcher.run(SIMHCA, "run", "--private", "--explain", "--", "timeout", "7", waits, f"timeout_{timeout}")
    story = blocks(told.stderr)[0]
    assert re.fullmatch(r"[0-9:.]+ waits\[\d+\], QP 0x\w+ \(RC\): no answer from QP 0x00fff0", story[0]), told.stderr
    assert story[1].startswith("  because:    the peer has no such QP") and story[2] == "  " + line, told.stderr


def test_polls_for_none_of_none(launcher, waits):
    """No completion is missed by a poll without room while the CQ is empty."""
    told = launcher.run(SIMHCA, "run", "--private", "--explain", "--", "timeout", "4", waits, "polls_none_of_none")
    assert told.status == 124 and "polls for no completions" not in told.stderr, told


def test_one_line_on_who_sleeps(launcher, waits):
    told = launcher.run(SIMHCA, "run", "--private", "--", "timeout", "6", waits, "ack_cq")
    assert re.fullmatch(r"simhca run: waits\[\d+\] slept, and would not wake up: ibv_destroy_cq\(\) .*; "
                        r"SIMHCA_EXPLAIN=1 tells more\n", told.stderr), told


UNACKED_ID = (r"rdma_(destroy|migrate)_id\(\) of 0x\w+ waits for rdma_ack_cm_event\(\): the program got 1 event of that id, and has "
              "not acknowledged it")


@pytest.fixture(scope="module")
def unacked_id(programs):
    return compiled(programs, HERE.parent / "programs/unacked_id.c", "-D_GNU_SOURCE", "-libverbs", "-lrdmacm", "-pthread")


@pytest.mark.parametrize("how", ["destroy", "migrate", "held_up", "ends_late"])
def test_an_id_that_is_not_destroyed(launcher, unacked_id, how):
    told = launcher.run(SIMHCA, "run", "--private", "--explain", "--", "timeout", "5", unacked_id, how)
    assert told.status == 124, told
    (head, because, *advice), = blocks(told.stderr)
    assert re.fullmatch(r"[0-9:.]+ unacked_id\[\d+\] sleeps, and will not wake up", head), told.stderr
    assert re.fullmatch("  because:    " + UNACKED_ID, because) and f"rdma_{'migrate' if how == 'migrate' else 'destroy'}_id()" in because, told.stderr
    assert [line.split(":")[0].strip() for line in advice] == ["rule", "usually", "try"]


def test_an_id_that_is_destroyed_late(device, unacked_id):
    """When its event is acknowledged, what was said is taken back, though the program goes on."""
    program = device.start(unacked_id, "late")

    def asleep():
        return [one for one in report(device) if one["kind"] == "sleep" and one["pid"] == program.pid]

    wait_until(asleep, 30, "it is told")
    program.send(signal.SIGUSR1)
    wait_until(lambda: not asleep(), 30, "that is taken back")
    program.kill()


def test_who_woke_up(launcher, waits):
    """What was said of it is taken back."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", waits, "late_ack"))
    assert told.stderr == ""


@pytest.mark.parametrize("how", ["write_polled", "write_waited"])
def test_a_write_that_a_send_follows(device, waits, how):
    """While the program waits for it it is told of the write; when the message comes that is taken back."""
    program = device.start(waits, how)

    def waiting():
        return [one for one in report(device) if one["kind"] == "sleep" and one["pid"] == program.pid]

    wait_until(waiting, 30, "it is told")
    program.send(signal.SIGUSR1)
    expect_success(program.finish())
    assert not waiting()


def test_who_waits_for_the_next_request(launcher, waits):
    """A write was the last but one message, and the program has seen the last."""
    told = launcher.run(SIMHCA, "run", "--private", "--explain", "--", "timeout", "6", waits, "send_polled")
    assert told.status == 124 and told.stderr == "", told


def test_who_polls_all_that_it_has(launcher, waits):
    """A loop that polls several CQs in turn waits for anything that may come, and not for its last send."""
    told = launcher.run(SIMHCA, "run", "--private", "--explain", "--", "timeout", "6", waits, "both_polled")
    assert told.status == 124 and told.stderr == "", told


def test_what_is_still_used(launcher, waits):
    """The provider itself refuses to destroy it, and tells by what it is used."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", waits, "busy")).stderr
    assert re.findall(r"\]: (.* is refused: Device or resource busy)\n  because:    (.*)\n", told) == [
        (f"{verb} is refused: Device or resource busy", because) for verb, because in (
            ("DESTROY_CQ", "this CQ of 15 entries is still used by 2 QPs"),
            ("DEALLOC_PD", "this parent domain is still used by 1 object: QPs, CQs, SRQs"),
            ("DEALLOC_TD", "this thread domain is still used by 1 parent domain"),
            ("DEALLOC_PD", "this PD is still used by 1 parent domain"))]


def test_a_leak_per_connection(launcher, waits):
    """What is refused again and again is one story each, with what uses it by its kind."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", waits, "leak")).stderr
    assert re.findall(r"\]: (.*)\n  because:    (.*)\n", told) == [
        ("DESTROY_CQ is refused: Device or resource busy, 3 times",
         "this CQ of 15 entries is still used by 1 QP"),
        ("DEALLOC_PD is refused: Device or resource busy, 3 times", "this PD is still used by 1 MR, 1 QP")]


PROBE = """
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr

context = Context(name="simhca0")
pd, cq = PD(context), CQ(context, 16)
for size in (1 << 20, 1 << 15, 4097, 64):
    try:
        QP(pd, QPInitAttr(qp_type=2, scq=cq, rcq=cq, cap=QPCap(max_inline_data=size)))
    except PyverbsRDMAError:
        pass
"""


def test_a_limit_that_is_looked_for(launcher):
    """Refusals that differ in numbers alone are one line, which says that one was taken in the end."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", PYTHON, "-c", PROBE))
    (head,), = blocks(result.stderr)
    assert head.endswith("]: CREATE_QP is refused: Invalid argument, 3 times; a later one succeeded: "
                         "max_inline_data = 1048576: at most 1024 bytes"), result


def test_what_libfabric_looks_for(launcher):
    """fi_info looks for the largest inline size, and for devices on all interfaces."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", "fi_info", "-p", "verbs")).stderr
    verbs = re.findall(r"^\S+ fi_info\[\d+\]: (.*?) is refused: ", told, re.M)
    assert len(verbs) == len(re.findall(r"^\S", told, re.M))
    searched = [] if lacks("inline_search") else ["CREATE_QP"]
    assert sorted(verbs) in (searched, [*searched, "rdma_cm BIND"]), told
    assert not searched or re.search(
        r"CREATE_QP is refused: Invalid argument, \d+ times; a later one succeeded: max_inline_data = ", told), told
    refused = re.search(r"rdma_cm BIND is refused: No such device.*\n  because:    (.*)", told)
    assert not refused or refused[1].endswith("or have a device there: `simhca run --netdev NAME`"), told


def test_an_injected_refusal(launcher):
    """The rule is told under the verb that it refused."""
    program = ("import pyverbs.device as d, pyverbs.pd as p, pyverbs.mr as m\n"
               "pd = p.PD(d.Context(name='simhca0'))\n"
               "for size in (64, 128):\n try: m.MR(pd, size, 0)\n except Exception: pass")
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--inject", "verb REG_MR=ENOMEM", "--",
                                       PYTHON, "-c", program)).stderr
    (head, because, injected, *_), = blocks(told[re.search("^[0-9:.]+ python3", told, re.M).start():])
    assert head.endswith("]: REG_MR is refused: Cannot allocate memory, 2 times"), told
    assert because.strip() == "because:    a rule of simhca inject refuses it"
    assert re.fullmatch(r"  injected:   rule 1: verb REG_MR=ENOMEM, 2 times, at python3\[\d+\]", injected), told


def test_the_senders_own_buffer(launcher):
    """The SGE that is wrong is found, and what its lkey names."""
    head, lines = story(launcher, "own_buffer")
    assert head.endswith("LOC_PROT_ERR")
    assert said(lines, "because:")[0].startswith("the access ends 32 bytes after the region")


def test_nobody_there(launcher):
    """What the device sees of a peer that does not answer is part of the story."""
    head, lines = story(launcher, "nobody")
    assert head.endswith("RETRY_EXC_ERR")
    assert said(lines, "seen:") == ["the peer has no such QP"]
    assert said(lines, "tried:")[0].startswith("once and 2 more (retry_cnt), each for at least 1.05 ms")


@pytest.fixture(scope="module")
def orphan(programs):
    return compiled(programs, HERE.parent / "programs/orphan.c", "-D_GNU_SOURCE", "-libverbs")


def test_a_peer_that_left_a_child(launcher, orphan):
    """Its process has ended, and who inherited its device has not: the QP is there, and does not answer."""
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", orphan)).stderr
    assert re.findall("^  seen:       (.*)$", re.sub(r"\[\d+\]", "[PID]", told), re.M) == [
        "the peer's process, orphan[PID], has ended; another one, such as a child that it forked, keeps its QP, but not "
        "its memory"]


def test_who_waits_for_such_a_peer(launcher, orphan):
    told = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", orphan, "waits")).stderr
    (head, because, *advice), = blocks(told)
    assert re.fullmatch(r"[0-9:.]+ orphan\[\d+\] sleeps, and will not wake up", head), told
    assert re.fullmatch(r"  because:    the program polls CQ \d+, which is empty: the process of the peer of its QP 0x\w+, "
                        r"orphan\[\d+\], has ended, and another one, such as a child that it forked, keeps the peer's QP",
                        because), told
    assert [line.split(":")[0].strip() for line in advice] == ["rule", "usually", "try"]


def test_a_peer_that_had_failed(launcher):
    """That nobody answers follows from what befell the peer: one story, one failure."""
    head, lines = story(launcher, "own_buffer_then_peer")
    assert head.endswith("LOC_PROT_ERR")
    assert said(lines, "then:")[0].endswith("SEND, wr_id 9: RETRY_EXC_ERR")
    assert run(launcher, "own_buffer_then_peer").stderr.startswith("simhca run: 1 work request ")


def test_a_refused_verb(launcher):
    """It is told, but is no failed work request."""
    head, lines = story(launcher, "verb")
    assert re.search(r"\]: MODIFY_QP is refused: Invalid argument$", head)
    because, = said(lines, "because:")
    assert re.fullmatch(r"QP 0x0\w{5} \(RC\): a QP cannot go from RESET to RTS: move it to RTR first", because)
    assert run(launcher, "verb").stderr == ""


def test_a_refused_post(launcher):
    """The provider itself refuses it, and says so; the first few times of a loop."""
    head, lines = story(launcher, "full")
    assert re.search(r"\]: POST_SEND is refused: Cannot allocate memory$", head)
    assert re.fullmatch(r"QP 0x\w+, RDMA_WRITE, wr_id 0x28: its send queue is full: max_send_wr is 40, and so many "
                        "were not polled; poll its CQ first",
                        said(lines, "because:")[0])


POSTS = {
    "too_many_sges": "SEND, wr_id 0x1: it has 17 SGEs, and max_send_sge is 2",
    "inline_too_long": "SEND, wr_id 0x1: 129 bytes are inline, and max_inline_data is 128",
    "inline_read": "RDMA_READ, wr_id 0x1: IBV_SEND_INLINE is for sends and writes only",
    "opcode": "TSO, wr_id 0x1: a QP of type RC has no such operation",
    "unknown_opcode": "77, wr_id 0x1: a QP of type RC has no such operation",
    "negative": "SEND, wr_id 0x1: num_sge is -1",
    "too_early": "SEND, wr_id 0x1: it is in INIT; move it to RTS first",
    "full": "SEND, wr_id 0x1: its send queue is full: max_send_wr is 4, and no send in it was signaled, so no "
            "completion gives their room back; have one in 4 signaled, and poll its CQ",
    "builder": "posts by ibv_wr_*(): a request has 9 SGEs, and max_send_sge is 2",
    "builder_inline": "posts by ibv_wr_*(): 129 bytes are inline, and max_inline_data is 128",
    "builder_inline_read": "posts by ibv_wr_*(): RDMA_READ has no inline data: ibv_wr_set_inline_data() is for sends and writes "
                           "only",
    "builder_not_asked_for": "posts by ibv_wr_*(): send_ops_flags, when the QP was created, had no IBV_QP_EX_WITH_RDMA_WRITE",
    "builder_not_begun": "posts by ibv_wr_*(): ibv_wr_set_*() was called, and no operation, such as ibv_wr_send(), before it",
    "builder_no_ah": "posts by ibv_wr_*(): ibv_wr_set_ud_addr() was called with ah NULL: ibv_create_ah() makes it, of the "
                     "receiver's address",
    "builder_old_ah": "posts by ibv_wr_*(): its address handle was destroyed: ibv_destroy_ah() is for when no further request is "
                      "posted with it",
    "builder_full": "posts by ibv_wr_*(): its send queue is full: max_send_wr is 4; poll its CQ first",
    "recv_sges": "receive, wr_id 0x2: it has 9 SGEs, and max_recv_sge is 1",
    "recv_full": "receive, wr_id 0x2: its queue is full: max_recv_wr is 4, and so many were not polled",
    "recv_reset": "receive, wr_id 0x2: it is in RESET; move it to INIT first",
    "recv_none": "receive, wr_id 0x2: it was created with max_recv_wr 0",
    "recv_srq": "receive, wr_id 0x2: its receives come from an SRQ: ibv_post_srq_recv() posts them",
    "srq_sges": "the SRQ, receive, wr_id 0x2: it has 9 SGEs, and max_sge is 1",
    "srq_full": "the SRQ, receive, wr_id 0x2: its queue is full: max_wr is 4, and so many were not polled",
}


@pytest.fixture(scope="module")
def refused_posts(programs):
    return compiled(programs, HERE.parent / "programs/refused_posts.c", "-D_GNU_SOURCE", "-libverbs")


@pytest.mark.parametrize("how", POSTS)
def test_which_limit_a_post_exceeds(launcher, refused_posts, how):
    """By its name and number, as the program got it when it created the queue."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", "--explain", "--", refused_posts, how))
    because, = re.findall("^  because:    (.*)$", result.stderr, re.M)
    assert re.sub("^QP 0x[0-9a-f]+, ", "", because) == POSTS[how]


def test_an_overrun(launcher):
    """An asynchronous event that no work request tells of."""
    head, lines = story(launcher, "overrun")
    assert re.search(r" python3\[\d+\]: IBV_EVENT_CQ_ERR, CQ \d+$", head)
    assert said(lines, "because:")[0].startswith("the CQ had no room for a completion")
    assert said(lines, "rule:") and said(lines, "usually:") and said(lines, "try:")


def connection_story(launcher, *options, program=("rping", "-c", "-a", "127.0.0.1", "-C", "1")):
    result = launcher.run(SIMHCA, "run", "--private", "--explain", *options, "--", *program)
    lines, = blocks(result.stderr[re.search("^[0-9:.]+ ", result.stderr, re.M).start():])
    return lines


def test_a_connection_that_nobody_takes(launcher):
    lines = connection_story(launcher)
    assert re.search(r" rping\[\d+\]: a connection fails$", lines[0])
    assert lines[1] == ("  because:    nobody listens on 127.0.0.1:7174 in port space TCP; "
                        "listeners are: none")
    assert [line.split()[0] for line in lines[2:]] == ["rule:", "usually:", "try:"]


def test_a_connection_that_a_rule_rejects(launcher):
    both = "rping -s -a 127.0.0.1 -C 1 & sleep 1; rping -c -a 127.0.0.1 -C 1; kill $!"
    lines = connection_story(launcher, "--inject", "reject", program=("sh", "-c", both))
    assert re.fullmatch(r"  because:    the connection to 127.0.0.1:7174 was rejected, reason 28 "
                        r"\(consumer: .*\)", lines[1])
    assert lines[2] == "  injected:   rule 1: reject, at rdma_cm"


def test_a_refused_command_of_rdma_cm(launcher):
    program = ("from rdma_cm import *; channel = Channel(); "
               "channel.connect(channel.create(TCP), 1)")
    lines = connection_story(launcher, program=(PYTHON, "-c", program))
    assert re.search(r" python3\[\d+\]: rdma_cm CONNECT is refused: Invalid argument$", lines[0])
    assert lines[1] == "  because:    id 0 has no device yet"


@pytest.mark.parametrize("case", ["fine", "flushed"])
def test_nothing_has_failed(launcher, case):
    """Nothing is said; nor of flushes that the program has asked for."""
    assert run(launcher, case, "--explain").stderr == ""
    assert run(launcher, case).stderr == ""


def test_one_line_at_the_end(launcher):
    """By default a line, whatever the log level; none, or all, by the environment."""
    line = run(launcher, "past_end").stderr
    assert re.fullmatch(r"simhca run: 1 work request failed \(first: python3\[\d+\] RDMA_WRITE wr_id "
                        r"1000: the access ends 1 byte after the region\); SIMHCA_EXPLAIN=1 tells "
                        r"more\n", line)
    assert run(launcher, "past_end", SIMHCA_EXPLAIN="0").stderr == ""
    assert "looked at:" in run(launcher, "past_end", SIMHCA_EXPLAIN="1").stderr


@pytest.fixture(scope="module")
def device():
    """A daemon that outlives its programs."""
    with Device("ethernet") as device:
        yield device


DIAGRAM = """\
    |- RDMA_WRITE of 64 bytes --------------->|
    |                                         |  the access ends 1 byte after
    |                                         |  the region
    |<-------------------- NAK: KEY_PAST_END -|
    |  wr_id 1000: REM_ACCESS_ERR             |
    |  (KEY_PAST_END)                         |
    |                                         |  IBV_EVENT_QP_ACCESS_ERR
    |                                         |  12 work requests are flushed
"""


def test_a_diagram():
    """Both ends beside each other; for a terminal, for Markdown, and as a picture."""
    with Device("ethernet") as device:
        expect_success(device.run(PYTHON, FAILING, "past_end"))
        head, drawn = explain(device, "--diagram").split("\n", 1)
        assert re.fullmatch(r"python3\[\d+\] QP 0x\w+ +python3\[\d+\] QP 0x\w+", head)
        assert drawn == DIAGRAM
        mermaid = explain(device, "--mermaid").splitlines()
        assert mermaid[0] == "sequenceDiagram" and "    A->>B: RDMA_WRITE of 64 bytes" in mermaid
        assert "    B->>A: NAK: KEY_PAST_END" in mermaid
        picture = device.new_directory() / "failure.svg"
        assert explain(device, "--svg", picture) == ""
        texts = [element.text for element in xml.etree.ElementTree.parse(picture).getroot().iter()
                 if element.tag.endswith("text")]
        assert "NAK: KEY_PAST_END" in texts and "RDMA_WRITE of 64 bytes" in texts
        for case in ("not_ready", "nobody", "own_buffer"):
            expect_success(device.run(PYTHON, FAILING, case))
        lines = explain(device, "--diagram").splitlines()
        assert max(map(len, lines)) <= 80
        assert "    |<-------- RNR NAK: no receive is posted -|" in lines
        assert "    |- RDMA_WRITE of 64 bytes ---------------x|" in lines
        assert "    |  posts SEND of 128 bytes                |" in lines


DROPPED_DIAGRAM = """\
    |- SEND of 64 bytes --------------------->|
    |                                         |  the datagram has Q_Key
    |                                         |  0x22222222, and its QP
    |                                         |  0x11111111
    |                                         |  drops it (QKEY_MISMATCH)
    |  its completion says SUCCESS            |
    |  the same 3 times in all                |
"""


def test_a_diagram_of_a_datagram(dropped):
    """Of a request that its sender does not know to have failed, the sender stands on the left as well."""
    with Device("ethernet") as device:
        expect_success(device.run(dropped, "qkey"))
        head, drawn = explain(device, "--diagram").split("\n", 1)
        assert re.fullmatch(r"dropped\[\d+\] QP 0x\w+ +dropped\[\d+\] QP 0x\w+", head)
        assert drawn == DROPPED_DIAGRAM
        assert "    Note over B: drops it (QKEY_MISMATCH)" in explain(device, "--mermaid").splitlines()


def explain(device, *options):
    return expect_success(device.run(SIMHCA, "explain", *options)).stdout


def report(device):
    return json.loads(explain(device, "--json"))["failures"]


def test_programs_that_have_ended(device):
    """Their failures stay; one is chosen by process, or by QP."""
    for case in "past_end", "own_buffer":
        expect_success(device.run(PYTHON, FAILING, case))
    sends = [failure for failure in report(device) if failure["kind"] == "send"][-2:]
    assert [send["reason"] for send in sends] == ["KEY_PAST_END", "KEY_PAST_END"]
    assert [send["status"] for send in sends] == ["REM_ACCESS_ERR", "LOC_PROT_ERR"]
    for send in sends:
        one, = blocks(explain(device, "--pid", str(send["pid"])))
        assert f"[{send['pid']}]" in one[0] and send["status"] in one[0]
    assert f"0x{sends[1]['qpn']:06x}" in explain(device, "--qp", str(sends[1]["qpn"]))


def test_a_program_that_fails_in_a_loop(device):
    """It takes the room of its own failures, not that of others."""
    expect_success(device.run(PYTHON, FAILING, "own_buffer"))
    honest = report(device)[-1]
    expect_success(device.run("sh", "-c", f"{PYTHON} {FAILING} not_ready {2 * OF_PROGRAM}"))
    failures = report(device)
    looping = {failure["pid"] for failure in failures if failure.get("status") == "RNR_RETRY_EXC_ERR"}
    assert honest in failures
    assert len([failure for failure in failures if failure["pid"] in looping]) <= OF_PROGRAM


def test_the_dictionary(launcher):
    """Each reason by name and by number, each status; without a daemon."""
    header = (HERE.parent.parent / "kernel-abi" / "simhca-abi-reason.h").read_text()
    reasons = re.findall(r"X\((\w+), ([0-9]+),", header)
    assert len(reasons) > 70
    for name, number in reasons:
        by_name = expect_success(launcher.run(SIMHCA, "explain", name)).stdout
        assert by_name.startswith(f"{name}, vendor_err {number} (0x{int(number):x}): ")
        assert "\n  usually: " in by_name and "\n  try:     " in by_name
    event = expect_success(launcher.run(SIMHCA, "explain", "IBV_EVENT_CQ_ERR")).stdout
    assert event.startswith("IBV_EVENT_CQ_ERR, asynchronous event 0: the CQ had no room")
    by_number = expect_success(launcher.run(SIMHCA, "explain", "0x14", "rem_access_err")).stdout
    assert [block[0].split(",")[0] for block in blocks(by_number)] == ["KEY_PAST_END",
                                                                       "IBV_WC_REM_ACCESS_ERR"]
    negative = expect_success(launcher.run(SIMHCA, "explain", "-12")).stdout
    assert negative == expect_success(launcher.run(SIMHCA, "explain", "ENOMEM")).stdout
    for taken in "EADDRINUSE", "EADDRNOTAVAIL":
        assert "  usually: Another rdma_cm id " in expect_success(launcher.run(SIMHCA, "explain", taken)).stdout
    wrong = launcher.run(SIMHCA, "explain", "NOTHING_KNOWN")
    assert wrong.status == 2 and wrong.stderr.startswith("simhca explain: NOTHING_KNOWN: must be")


@pytest.mark.parametrize("word, heads", [
    ("9", ["IBV_WC_REM_INV_REQ_ERR", "EBADF"]),
    ("12", ["IBV_WC_RETRY_EXC_ERR", "ENOMEM"]),
    ("20", ["KEY_PAST_END"]),
    ("ENOMEM", ["ENOMEM"]),
    ("remote invalid request error", ["IBV_WC_REM_INV_REQ_ERR"]),
    ("Failed status transport retry counter exceeded (12) for wr_id 2", ["IBV_WC_RETRY_EXC_ERR"]),
    ("Completion with error at client: Cannot allocate memory", ["ENOMEM"]),
    ("the access ends after the region", ["KEY_PAST_END"]),
    ("cma event RDMA_CM_EVENT_UNREACHABLE, error -110", ["RDMA_CM_EVENT_UNREACHABLE: the peer did not answer the "
                                                         "request to connect"]),
    ("wc.status = IBV_WC_REM_OP_ERR", ["IBV_WC_REM_OP_ERR"]),
    (" Failed status 10: wr_id 0 syndrom 0x88", ["IBV_WC_REM_ACCESS_ERR"]),
    (" Failed status 10: wr_id 0 syndrom 0x22", ["IBV_WC_REM_ACCESS_ERR", "MR_NO_REMOTE_WRITE"]),
    ("wc.status = 12, vendor_err = 96", ["IBV_WC_RETRY_EXC_ERR", "NO_RESPONSE"]),
    ("got IBV_EVENT_COMM_EST", ["IBV_EVENT_COMM_EST"]),
    ("unexpected RDMA_CM_EVENT_ADDR_RESOLVED", ["RDMA_CM_EVENT_ADDR_RESOLVED: a device was found that has the way "
                                                "to the address"]),
    ("connect: Network is unreachable", ["ENETUNREACH"]),
    ("RDMA_CM_EVENT_REJECTED", ["RDMA_CM_EVENT_REJECTED: the peer rejected the request; the event's status says "
                                "why (8: nobody listens there"]),
])
def test_what_programs_print_can_be_asked(launcher, word, heads):
    told = expect_success(launcher.run(SIMHCA, "explain", word)).stdout
    assert [block[0].split(",")[0] for block in blocks(told)] == heads


def test_a_part_of_a_name(launcher):
    wrong = launcher.run(SIMHCA, "explain", "rnr")
    assert wrong.status == 2, wrong
    assert wrong.stderr.startswith("simhca explain: rnr: no error is called that; with it in their names there are: ") and \
        "RNR_RETRY_EXC_ERR" in wrong.stderr, wrong


def test_the_dictionary_as_json(launcher):
    """For scripts: the same words by kind, with the reasons of a status."""
    told = json.loads(expect_success(launcher.run(SIMHCA, "explain", "-j", "9", "RDMA_CM_EVENT_REJECTED")).stdout)
    assert [(entry["kind"], entry["name"], entry.get("number")) for entry in told] == [
        ("status", "IBV_WC_REM_INV_REQ_ERR", 9), ("errno", "EBADF", 9),
        ("rdma_cm event", "RDMA_CM_EVENT_REJECTED", None)]
    assert {"kind": "reason", "name": "RECV_TOO_SHORT", "number": 70,
            "text": "the message is longer than the receive buffer"} in told[0]["reasons"]
    assert all(entry["usually"] and entry["try"] for entry in told[1:])


def test_a_status_has_all_its_reasons(launcher):
    told = expect_success(launcher.run(SIMHCA, "explain", "REM_INV_REQ_ERR")).stdout
    reasons = re.findall(r"^ +\d+ (\w+): ", told, re.M)
    assert {"RECV_TOO_SHORT", "QP_NO_REMOTE_WRITE", "RESP_NO_RD_ATOMIC"} <= set(reasons)
    assert "KEY_PAST_END" not in reasons


def test_what_libraries_print_is_known(launcher):
    """Each text of libibverbs for a status or an event that tells of a failure."""
    verbs = ctypes.CDLL("libibverbs.so.1")
    for function, name, numbers in [(verbs.ibv_wc_status_str, "IBV_WC_", [1, 2, *range(4, 14), 19, 21, 22]),
                                    (verbs.ibv_event_type_str, "IBV_EVENT_", [0, 1, 2, 3, 7, 8, 10, 14, 19])]:
        function.restype = ctypes.c_char_p
        for number in numbers:
            told = expect_success(launcher.run(SIMHCA, "explain", function(number).decode())).stdout
            assert re.match(rf"{name}\w+, .* {number}: ", told), told
