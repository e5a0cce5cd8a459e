# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
--model efa: Debian's libefa, unmodified, drives the device, and so do the programs that know EFA. What libefa's own tests
say of it is in the suite upstream.
"""
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import time

import pytest

from captures import Tracer, expect_wireshark_agrees, packets
from common import ENDING, TIME_LIMIT, SIMHCA, Device, cpu_ticks, expect_success, is_listened_on, new_port, run_pair, wait_until
from middleware import NO_SHM, OPENMPI_ENV, compiled, expect_ranks, run_efa_rdm
from releases import lacks, needs

MESSAGES = """\
send 0 ok
send 1 ok
send 33 ok
send 8192 ok
immediate ok
unknown peer 14
read ok
lkey 5
rkey 7
past the end 7
QPN 9
qkey 9
not ready 10
too long 11 6
lkey of the receive 12 5
address 7
later ok
flushed 1
asleep
"""


@pytest.fixture(scope="module")
def module_efa():
    with Device("ethernet", "--model", "efa") as device:
        yield device


@pytest.fixture
def efa(module_efa):
    """Nothing is left behind by a test."""
    yield module_efa
    module_efa.kill_programs()
    module_efa.expect_idle()


def test_devinfo(efa):
    """libefa opens it, and not the project's own provider."""
    found = expect_success(efa.run("ibv_devinfo", "-v")).stdout
    for line in ("transport:\t\t\tunspecified (4)", "vendor_id:\t\t\t0x1d0f", "state:\t\t\tPORT_ACTIVE (4)"):
        assert line in found, found


def test_messages(efa):
    """Data, and each status; an idle device uses no CPU, and the next store wakes it up."""
    program = efa.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")
    assert program.stdout == MESSAGES, program.result()
    time.sleep(0.1)
    before = cpu_ticks(efa.pid)
    time.sleep(2)
    assert cpu_ticks(efa.pid) - before <= 2, "an idle device uses the CPU"
    program.send(signal.SIGUSR1)
    assert expect_success(program.finish()).stdout == MESSAGES + "awake ok\n"


# Of what is printed above, what `simhca explain` says: the reason, and the vendor_err that the program has seen.
EXPLAINED = [
    ("NO_RESPONSE", 14), ("KEY_UNKNOWN", 5), ("KEY_UNKNOWN", 7), ("KEY_PAST_END", 7), ("NO_RESPONSE", 9),
    ("QKEY_MISMATCH", 9), ("PEER_NOT_READY", 10), ("RECV_TOO_SHORT", 6), ("RECV_TOO_SHORT", 11),
    ("KEY_UNKNOWN", 5), ("KEY_UNKNOWN", 12), ("NO_RESPONSE", 7)]


def test_explain(efa):
    """Each failure has its sentence; of keys with what they name, of queues with what was posted."""
    program = efa.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")
    told = json.loads(expect_success(efa.run(SIMHCA, "explain", "--json")).stdout)["failures"]
    told = [failure for failure in told if failure["pid"] == program.pid]
    assert [(failure["reason"], failure["vendor_err"]) for failure in told] == EXPLAINED
    assert {failure["qp_type"] for failure in told} == {"SRD"}
    assert told[3]["text"] == "the access ends 1 byte after the region"
    assert told[3]["entry"]["length"] == 8192
    assert told[6]["queue"]["posted"] == 5
    assert told[5]["text"] == "the message has Q_Key 0x00000001, and its QP 0x11111111"
    text = expect_success(efa.run(SIMHCA, "explain", "--pid", program.pid)).stdout
    assert "without which EFA carries no RDMA (NO_RESPONSE, vendor_err 14)" in text


def test_objects(efa):
    """What programs have, and what it has done, is shown as of any device."""
    program = efa.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")

    def shown(kind):
        found = json.loads(expect_success(efa.run(SIMHCA, kind, "--json", "--pid", program.pid)).stdout)
        return sorted(found, key=lambda one: one["context"])

    qps = shown("qp")
    assert [(qp["type"], qp["state"]) for qp in qps] == [("SRD", "ERR"), ("SRD", "RTS"), ("SRD", "RTS")]
    first, second, third = (qp["usage"] for qp in qps)
    sent = {"messages": 5, "bytes": sum([0, 1, 33, 8192, 64]), "reads": 1, "read_bytes": 8192, "errors": 10}
    assert {name: first[name] for name in sent} == sent
    assert (second["received"], second["received_bytes"]) == (5, sent["bytes"])
    # A message of the second one waited for its receive, and one of the first until it gave up.
    assert second["messages"] == first["received"] == 1
    assert second["rnr_naks"] == first["no_receive"] > 0 and second["rnr_delay_ns"] > 0
    assert first["rnr_naks"] == second["no_receive"] == 2
    assert sum(count for _, count in first["latency"]) == 16 and not third["latency"]
    assert [(cq["cqe"], cq["users"]) for cq in shown("cq")] == [(64, 2)] * 3
    shown_by_rdma = expect_success(efa.run("rdma", "resource", "show", "qp")).stdout
    assert len(re.findall(rf"type DRIVER state \w+ .*pid {program.pid} ", shown_by_rdma)) == 3, shown_by_rdma


WAITS = """\
import signal
from efa_messages import End
there, here = End("simhca0"), End("simhca0")
ah = here.address(there.gid())
here.send(ah, there.qp.qp_num, 64)
print(here.qp.qp_num, there.qp.qp_num, flush=True)
signal.pause()
"""


def test_who_waits_for_whom(efa):
    """A message without a receive is shown as such, with its receiver, and what it costs."""
    program = efa.start("/usr/bin/python3", "-u", "-c", WAITS, PYTHONPATH=pathlib.Path(__file__).parent)
    wait_until(lambda: "\n" in program.stdout or not program.running, TIME_LIMIT, "it has sent")
    me = rf"python3\[{program.pid}\], QP "
    here, there = (f"0x{int(number):06x}" for number in program.stdout.split())
    line = rf"^{me}{here} waits for a receive of {me}{there}; posted: 1$"
    for tool in ["stat"], ["top", "-n", 1, "-d", 0.2]:
        shown = expect_success(efa.run(SIMHCA, *tool)).stdout
        assert re.search(line, shown, re.M), shown
    last = expect_success(efa.run(SIMHCA, "top", "--json", "-n", 2, "-d", 0.3)).stdout.splitlines()[-1]
    counted, = [one for one in json.loads(last)["programs"] if one["pid"] == program.pid]
    assert counted["rnr_naks"] > 0 and counted["messages"] == 0, counted
    status = expect_success(efa.run(SIMHCA, "status")).stdout
    assert "simhca0: EFA, ACTIVE" in status and re.search(rf" {program.pid} +python3 ", status), status


WAITS_FOR_ANOTHER_DEVICE = """\
import signal
from efa_messages import End
other, there, here = End("simhca1"), End("simhca1"), End("simhca0")
ah = here.address(there.gid())
here.send(ah, there.qp.qp_num, 64)
print(here.qp.qp_num, there.qp.qp_num, flush=True)
signal.pause()
"""


def test_who_waits_for_another_device():
    """Each device has numbers of its own: the receiver is not the QP of that number here."""
    with Device("ethernet", "--model", "efa", "--devices", 2) as device:
        program = device.start("/usr/bin/python3", "-u", "-c", WAITS_FOR_ANOTHER_DEVICE,
                               PYTHONPATH=pathlib.Path(__file__).parent)
        wait_until(lambda: program.stdout == "1 2\n" or not program.running, TIME_LIMIT, "it has sent")
        me = rf"python3\[{program.pid}\], QP "
        shown = expect_success(device.run(SIMHCA, "stat")).stdout
        assert re.search(rf"^{me}0x000001 waits for a receive of {me}0x000002; posted: 1$", shown, re.M), shown


def test_lint(launcher):
    """What a program gets away with is told of an EFA device's QPs, too."""
    program = launcher.start(SIMHCA, "run", "--private", "--lint", "--model", "efa", "--", "/usr/bin/python3", "-u",
                             pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")
    program.send(signal.SIGUSR1)
    told = program.finish().stderr
    assert re.search(r"rnr: QP 0x000002: \d+ RNR NAKs of its peer cost \d+ us of waiting", told), told


def test_inject(tmp_path):
    """A rule of faults has a message fail; others lose messages, which SRD sends again, and have them pass each other."""
    with Device("ethernet", "--model", "efa") as device:
        expect_success(device.run(SIMHCA, "inject", "add", "complete REM_ACCESS_ERR nth=3"))
        argv = ["ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 64, "-p", new_port()]
        device.start(*argv)
        wait_until(lambda: is_listened_on(argv[-1]), TIME_LIMIT, "it listens")
        assert "syndrom 0x7" in device.run(*argv, "localhost").stderr
        device.kill_programs()  # the other waits for the rest
        told = json.loads(expect_success(device.run(SIMHCA, "explain", "--json")).stdout)["failures"]
        failed = [failure for failure in told if failure["kind"] == "send"]
        assert [(failure["reason"], failure["vendor_err"]) for failure in failed] == [("INJECTED", 7)], told
        expect_success(device.run(SIMHCA, "inject", "clear"))
        expect_success(device.run(SIMHCA, "inject", "add", "drop every=10", "reorder every=7"))
        run_efa_rdm(device, device, tmp_path)
        for rule in json.loads(expect_success(device.run(SIMHCA, "inject", "--json", "list")).stdout):
            assert rule["fired"], rule


@pytest.mark.parametrize("caps, part", [(1, "0xefa0"), (2, "0xefa1"), (3, "0xefa1"), (4, "0xefa2")])
def test_generations(launcher, caps, part):
    """libfabric uses reads where the device has them, and does without elsewhere."""
    found = expect_success(launcher.run(SIMHCA, "run", "--private", "--model", "efa", "--efa-caps", caps, "--", "sh", "-c",
                                        "ibv_devinfo -v; fi_info -p efa -v"))
    assert re.search(rf"vendor_part_id:\s+{int(part, 16)}\n", found.stdout), found


ASKS_FOR_QUEUES = """\
import errno, sys
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
IBV_QPT_UD = 4  # the module that has it has had several names
context = Context(name="simhca0")
pd, cq = PD(context), CQ(context, 64)
for wish in sys.argv[1:]:
    sends, recvs, sges = map(int, wish.split(","))
    cap = QPCap(max_send_wr=sends, max_recv_wr=recvs, max_send_sge=1, max_recv_sge=sges)
    try:
        QP(pd, QPInitAttr(qp_type=IBV_QPT_UD, scq=cq, rcq=cq, cap=cap)).close()
        print(wish, "ok")
    except PyverbsRDMAError as error:
        print(wish, errno.errorcode[error.error_code])
"""


def expect_queues(device, wishes):
    """wishes: sends, receives, buffers of a receive, and what comes of it."""
    made = expect_success(device.run("/usr/bin/python3", "-c", ASKS_FOR_QUEUES, *wishes)).stdout
    assert dict(line.split() for line in made.splitlines()) == wishes


def test_longest_queues(efa):
    """Of a receive queue the buffers count."""
    expect_queues(efa, {"4096,32768,1": "ok", "1,8192,4": "ok", "4097,1,1": "EINVAL", "1,32769,1": "EINVAL",
                        "1,8193,4": "EINVAL", "1,1,5": "EINVAL"})


def test_limits():
    """What is lowered libefa reports, and keeps to."""
    lowered = ["--efa-mtu", 4096, "--efa-rdma-size", 65536, "--max-qp-wr", 64, "--max-sge", 1, "--max-cqe", 1024]
    with Device("ethernet", "--model", "efa", *lowered) as device:
        found = expect_success(device.run("ibv_devinfo", "-v")).stdout
        for name, value in (("max_qp_wr", 64), ("max_sge", 1), ("max_cqe", 1024)):
            assert re.search(rf"^\t{name}:\t+{value}$", found, re.M), found
        assert "max_msg_size: 4096\n" in expect_success(device.run("fi_info", "-p", "efa", "-t", "FI_EP_DGRAM", "-v")).stdout
        for result in run_pair(device, "ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 4096, "-t", 32, "-r", 64):
            expect_success(result)
        expect_queues(device, {"64,64,1": "ok", "65,1,1": "EINVAL", "1,65,1": "EINVAL", "1,1,2": "EINVAL"})


def test_shuffled(tmp_path):
    """Programs that rely on no order of SRD's run: perftest, and libfabric, which sorts by itself."""
    with Device("ethernet", "--model", "efa", "--srd-order", "shuffled") as device:
        for result in run_pair(device, "ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 64):
            expect_success(result)
        run_efa_rdm(device, device, tmp_path)


EVENTS = """\
one by one ok
not armed ok
fast ok
left ok
asleep (\\d+)
"""


def test_events(efa):
    """Completion channels; who sleeps there uses no CPU, nor does the device, and a message wakes both up."""
    script = pathlib.Path(__file__).with_name("efa_events.py")
    sleeper = efa.start("/usr/bin/python3", "-u", script)
    wait_until(lambda: "asleep" in sleeper.stdout or not sleeper.running, TIME_LIMIT, "it sleeps")
    found = re.fullmatch(EVENTS, sleeper.stdout)
    assert found, sleeper.result()
    time.sleep(0.1)
    before = cpu_ticks(efa.pid)
    time.sleep(2)
    assert cpu_ticks(efa.pid) - before <= 2, "an idle device uses the CPU"
    assert expect_success(efa.run("/usr/bin/python3", "-u", script, found[1])).stdout == "sent ok\n"
    assert expect_success(sleeper.finish()).stdout.endswith("awake ok\n")


def test_killed(efa):
    """What a program had goes with it."""
    program = efa.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")
    assert efa.objects()["qps"] == 3, program.result()
    program.send(signal.SIGKILL)
    program.finish()
    efa.expect_idle()


def test_peer_is_killed(efa):
    """In the middle of its messages: who sends to it is told, and nothing of either is left."""
    argv = ["ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-s", 64, "-D", 2 * TIME_LIMIT, "-p", new_port()]
    server = efa.start(*argv)
    wait_until(lambda: is_listened_on(argv[-1]) or not server.running, TIME_LIMIT, "it listens")
    client = efa.start(*argv, "localhost")

    def received():
        programs = json.loads(expect_success(efa.run(SIMHCA, "stat", "--json")).stdout)["programs"]
        return any(one["pid"] == server.pid and one["received"] for one in programs)

    wait_until(received, TIME_LIMIT, "messages come")
    # So that its memory goes before its QP does.
    os.kill(efa.pid, signal.SIGSTOP)
    server.send(signal.SIGKILL)
    server.finish()
    os.kill(efa.pid, signal.SIGCONT)
    assert "syndrom 0x9" in client.finish().stderr
    told = json.loads(expect_success(efa.run(SIMHCA, "explain", "--json")).stdout)["failures"]
    told = {(failure["reason"], failure["vendor_err"]) for failure in told if failure["pid"] == client.pid}
    assert told == {("NO_RESPONSE", 9)}


def test_daemon_is_killed():
    """Commands fail, and who waits for asynchronous events is told; what is posted stays as it is."""
    with Device("ethernet", "--model", "efa") as device:
        program = device.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
        watching = device.start("ibv_asyncwatch")
        wait_until(lambda: "asleep\n" in program.stdout and "async event FD" in watching.stdout, TIME_LIMIT, "both wait")
        os.kill(device.pid, signal.SIGKILL)
        assert watching.finish(ENDING).status > 0
        program.send(signal.SIGUSR1)
        ended = program.finish()
        assert ended.status > 0 and "nothing has completed" in ended.stderr, ended
        device.start_daemon()
        for result in run_pair(device, "ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 64):
            expect_success(result)


@pytest.mark.parametrize("program, flags, size", [
    ("ib_send_bw", ["-c", "SRD"], 8192), ("ib_read_bw", ["-c", "SRD"], 1 << 20), ("ib_send_lat", ["-c", "SRD"], 2),
    ("ib_read_lat", ["-c", "SRD"], 64),
    ("ib_send_bw", ["-c", "UD", "-Q", 1], 4096)])
def test_perftest(efa, program, flags, size):
    argv = [program, "-F", "-x", 0, "-n", 100, "-s", size, *flags]
    client, server = map(expect_success, run_pair(efa, *argv))
    for result in (client, server) if "read_lat" not in program else (client,):  # there the server says nothing
        assert re.search(rf"^ {size} +100 ", result.stdout, re.M), result


@needs("srd_writes")
@pytest.mark.parametrize("program, size", [("ib_write_bw", 65536), ("ib_write_lat", 64)])
def test_perftest_writes(efa, program, size):
    argv = [program, "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", size]
    client, _ = map(expect_success, run_pair(efa, *argv))
    assert re.search(rf"^ {size} +100 ", client.stdout, re.M), client


@needs("wide_wqes")
def test_wide_wqes(efa):
    """More data in a WQE than fit into 64 bytes."""
    for result in run_pair(efa, "ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 80, "-I", 80):
        assert re.search(r"^ 80 +100 ", expect_success(result).stdout, re.M), result


# Of BTHs (IBTA vol. 1, table 38).
SEND, SEND_IMM, READ, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST, ACK = 0x04, 0x05, 0x0c, 0x0d, 0x0e, 0x0f, 0x11
UD_SEND = 0x64
NAK_INVALID, NAK_ACCESS, NAK_OPERATIONAL = 0x61, 0x62, 0x63


def test_trace(efa, tmp_path):
    """SRD stands in captures as RC would, with its data and answers."""
    tracer = Tracer(efa, tmp_path / "capture")
    program = efa.start("/usr/bin/python3", "-u", pathlib.Path(__file__).with_name("efa_messages.py"))
    wait_until(lambda: "asleep\n" in program.stdout or not program.running, TIME_LIMIT, "it sleeps")
    written, lost = tracer.end()
    seen = packets(tracer.path)
    assert written == len(seen) and not lost
    sends = [packet.payload for packet in seen if packet.opcode == SEND]
    assert b"x" * 8191 + b"y" in sends and b"" in sends
    immediate, = [packet for packet in seen if packet.opcode == SEND_IMM]
    assert immediate.payload[:4] == (0x1234).to_bytes(4, "little")  # as the program has it in memory
    read = next(packet for packet in seen if packet.opcode == READ)
    parts = [packet for packet in seen if packet.opcode in (RESPONSE_FIRST, RESPONSE_LAST)]
    assert [part.psn - read.psn for part in parts] == [0, 1]
    assert b"".join(part.payload[4:] for part in parts) == b"z" * 8192
    syndromes = {packet.payload[0] for packet in seen if packet.opcode == ACK}
    assert syndromes == {0x1f, NAK_INVALID, NAK_ACCESS, NAK_OPERATIONAL}
    expect_wireshark_agrees(tracer.path)


@pytest.mark.parametrize("program, flags, opcodes", [
    ("ib_read_bw", ["-c", "SRD", "-s", 300000], {READ, RESPONSE_FIRST, RESPONSE_MIDDLE, RESPONSE_LAST}),
    ("ib_send_bw", ["-c", "UD", "-Q", 1, "-s", 64], {UD_SEND})])
def test_trace_of_perftest(efa, tmp_path, program, flags, opcodes):
    tracer = Tracer(efa, tmp_path / "capture")
    for result in run_pair(efa, program, "-F", "-x", 0, "-n", 5, *flags):
        expect_success(result)
    tracer.end()
    assert opcodes <= {packet.opcode for packet in packets(tracer.path)}
    expect_wireshark_agrees(tracer.path)


def test_fi_info(efa):
    """libfabric finds both kinds of endpoints; since 2.1 the device's own operations are a fabric that comes first."""
    found = expect_success(efa.run("fi_info", "-p", "efa")).stdout
    direct = [] if lacks("efa_direct") else ["simhca0-rdm"]
    assert re.findall(r"^ +domain: (\S+)$", found, re.M) == [*direct, "simhca0-rdm", "simhca0-dgrm"], found
    assert ("fabric: efa-direct\n" in found) == bool(direct), found


@pytest.mark.parametrize("endpoint, mode, size", [("rdm", "msg", 4096), ("rdm", "tagged", 65536), ("dgram", "msg", 4096)])
def test_fi_pingpong(efa, endpoint, mode, size):
    """
    Messages with checked data; a long one is more than one of the device's. Those without tags are in the fabric
    that comes first.
    """
    port = new_port()
    argv = ["fi_pingpong", "-p", "efa", "-e", endpoint, "-m", mode, "-c", "-I", 20, "-S", size]
    server = efa.start(*argv, "-B", port, **NO_SHM)
    wait_until(lambda: is_listened_on(port) or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(efa.run(*argv, "-P", port, "127.0.0.1", **NO_SHM))
    expect_success(server.finish())
    assert re.search(rf"^{size // 1024}k +20 +=20 ", client.stdout, re.M), client


def test_libfabric(efa, tmp_path):
    """A program of ours: tagged messages, reads and writes, of up to 200 kB, checked byte for byte."""
    run_efa_rdm(efa, efa, tmp_path)


CALLS = """\
message 3000
senddata
inject
message 100000
unexpected 3000
unexpected 100000
multi_recv
cancel
atomics
write and read 3000
write and read 100000
writedata
counters 12
done
"""
DIRECT_CALLS = """\
message 3000
senddata
inject
write and read 3000
write and read 100000
writedata
counters 3
done
"""


@pytest.mark.parametrize("fabric, printed", [
    pytest.param("efa", CALLS), pytest.param("efa-direct", DIRECT_CALLS, marks=needs("efa_direct"))], ids=["efa", "efa-direct"])
def test_libfabric_calls(efa, tmp_path, fabric, printed):
    """Each kind of libfabric's calls, with its data."""
    assert expect_success(efa.run(compiled(tmp_path, "efa_calls.c", "-lfabric"), fabric, **NO_SHM)).stdout == printed


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="efa_overwritten.c knows no jump of this architecture")
def test_mmap_is_overwritten(efa, tmp_path):
    """By who wants to know of mappings: it is told, and the device is mapped nevertheless."""
    told = expect_success(efa.run(compiled(tmp_path, "efa_overwritten.c", "-D_GNU_SOURCE", "-libverbs"))).stdout
    assert told == "told\nmapped\n"


def test_openmpi(efa, tmp_path):
    """
    Over libfabric, by its matching transport layer: messages of up to 1 MiB, of which each word is checked. It has
    itself told of mappings, for which it overwrites mmap().
    """
    result = efa.run("mpirun.openmpi", "--oversubscribe", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
                     "--mca", "mtl_ofi_provider_include", "efa", "-np", 2,
                     compiled(tmp_path, "mpi_messages.c", compiler="mpicc.openmpi"), 1 << 20,
                     seconds=2 * TIME_LIMIT, FI_PROVIDER="efa", **OPENMPI_ENV, **NO_SHM)
    expect_ranks(result, "messages", 2)


def test_sub_cqs():
    """Of generation 1 a CQ is two rings: libefa polls both."""
    with Device("ethernet", "--model", "efa", "--efa-caps", "1") as device:
        for result in run_pair(device, "ib_send_bw", "-c", "SRD", "-F", "-x", 0, "-n", 100, "-s", 64, "-b"):
            expect_success(result)


@pytest.mark.parametrize("safe", [{}, {"RDMAV_FORK_SAFE": "1"}], ids=["fork", "fork-safe"])
def test_fork(efa, safe):
    """The device stays the parent's, also where it is asleep, and a child opens it for itself."""
    script = pathlib.Path(__file__).with_name("efa_fork.py")
    assert expect_success(efa.run("/usr/bin/python3", "-u", script, **safe)).stdout == "parent ok\nchild ok\nlater ok\n"


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace: scripts/install-deps clients")
def test_nothing_is_asked_of_ec2(efa, tmp_path):
    """What libfabric wants to know of the machine is in the device tree, but for its CPUs, memory and page sizes."""
    log = tmp_path / "calls"
    expect_success(efa.run("strace", "-f", "-o", log, "-e", "trace=openat,connect,readlink,access", "fi_info", "-p", "efa"))
    asked = set(re.findall(r'"((?:/sys|/proc)/[^"]+)"', log.read_text()))
    assert any(path.startswith("/sys/devices/system/") for path in asked)  # so this is its log
    assert "sin_addr" not in log.read_text()  # the service of metadata is 169.254.169.254
    known = r"/proc/(self|[0-9]+)/.*|/proc/(kallsyms|meminfo|cpuinfo|stat|sys/.*)|/sys/devices/system/.*|/sys/kernel/mm/.*"
    assert not [path for path in asked if not re.fullmatch(known, path)], asked


def test_show_seccomp(launcher):
    """By system calls alone the device is shown, and has no commands of libefa: it does not open."""
    seen = launcher.run(SIMHCA, "run", "--private", "--model", "efa", "--show", "seccomp", "--", "sh", "-c",
                        "ibv_devices; ibv_devinfo")
    assert "simhca0" in seen.stdout and "Failed to open device" in seen.stdout + seen.stderr, seen


def test_refusals(launcher):
    """What an EFA device is not, beside another kind of device in one daemon."""
    refused = launcher.run(SIMHCA, "run", "--private", "--model", "efa", "--link-layer", "ib", "--", "true")
    assert "--model efa: has no --link-layer ib and no --profile" in refused.stderr, refused
    refused = launcher.run(SIMHCA, "run", "--private", "--efa-caps", 2, "--", "true")
    assert "--efa-caps, --efa-mtu, --efa-rdma-size and --srd-order: need --model efa" in refused.stderr, refused
    both = expect_success(launcher.run(SIMHCA, "run", "--private", "--devices", 2, "--device", "simhca1,model=efa",
                                       "--", "ibv_devinfo")).stdout
    assert re.findall(r"^\ttransport:\t+(\S+)", both, re.M) == ["InfiniBand", "unspecified"], both
