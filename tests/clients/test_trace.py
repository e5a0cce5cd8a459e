# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""`simhca trace`: what links carry, as RoCE v2 packets that Wireshark takes for good ones."""
import ipaddress
import json
import re
import signal
import struct
import subprocess
import time

import pytest

from captures import ETHERNET, ROCE, TSHARK, UDP, Tracer, expect_wireshark_agrees, frames, packets
from common import (HERE, TIME_LIMIT, SIMHCA, Device, expect_success, new_port, run_pair,
                    start_pair, stopped, wait_command, wait_until)
from link_layers import LINK_LAYERS

MTU = 1024  # of ibv_rc_pingpong
TRACERS = 8  # TRACERS_MOST


@pytest.fixture(scope="module", params=LINK_LAYERS)
def device(request):
    with Device(request.param) as device:
        yield device


@pytest.fixture
def pingpong(device):
    """Runs pairs of ibv_rc_pingpong, and the like."""
    flags = ("-g", "0") if device.link_layer == "ethernet" else ()
    return lambda program, *more: run_pair(device, program, *flags, *more)


def test_messages_in_packets_of_the_path_mtu(device, pingpong, tmp_path):
    """10,000 bytes are a first packet, eight in the middle and a last one; each is answered."""
    tracer = Tracer(device, tmp_path / "capture")
    pingpong("ibv_rc_pingpong", "-s", "10000", "-n", "20")
    written, lost = tracer.end()
    seen = packets(tracer.path)
    assert lost == 0 and written == len(seen) == 2 * 20 * 11
    assert [packet.opcode for packet in seen[:11]] == [0x00] + 8 * [0x01] + [0x02, 0x11]
    message = seen[:10]
    assert [(packet.psn - message[0].psn) & 0xffffff for packet in message] == list(range(10))
    assert [len(packet.payload) for packet in message] == 9 * [MTU] + [10000 - 9 * MTU]
    assert seen[10].psn == message[-1].psn
    expect_wireshark_agrees(tracer.path)


@pytest.mark.parametrize("program, opcodes", [
    (("ib_read_lat", "-F", "-n", "20", "-s", "10000"), {0x0c, 0x0d, 0x0e, 0x0f}),
    (("ib_atomic_lat", "-F", "-n", "20"), {0x14, 0x12}),
    (("ib_write_lat", "-F", "-n", "20", "-s", "16"), {0x0a, 0x11}),
    (("ib_send_lat", "-F", "-n", "20", "-c", "UD"), {0x64}),
    (("ib_send_lat", "-F", "-n", "20", "-c", "UC"), {0x24}),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_operations(device, tmp_path, program, opcodes):
    tracer = Tracer(device, tmp_path / "capture")
    for result in run_pair(device, *program):
        expect_success(result)
    tracer.end()
    assert opcodes <= {packet.opcode for packet in packets(tracer.path)}
    expect_wireshark_agrees(tracer.path)


def test_only_some(device, pingpong, tmp_path):
    """By number of packets, by length, by QP, by process."""
    counted = Tracer(device, tmp_path / "counted", "--count", "7")
    short = Tracer(device, tmp_path / "short", "--snaplen", "60")
    nobodys = Tracer(device, tmp_path / "nobodys", "--pid", "1")
    server, _ = pingpong("ibv_rc_pingpong", "-n", "20")
    expect_success(counted.program.finish())
    assert len(list(frames(counted.path))) == 7
    short.end()
    assert {len(frame) for frame, _ in frames(short.path)} == {60}
    assert nobodys.end()[0] == 0
    qpn = int(re.search(r"local address: .*QPN (0x\w+)", server.stdout)[1], 16)
    assert qpn in {packet.dest_qpn for packet in packets(counted.path)}


def test_only_one_device(tmp_path):
    with Device("ethernet", "--devices=2") as device:
        this = Tracer(device, tmp_path / "this", "--device", "simhca0")
        another = Tracer(device, tmp_path / "another", "--device", "simhca1")
        for result in run_pair(device, "ibv_rc_pingpong", "-g", "0", "-d", "simhca0", "-n", "20"):
            expect_success(result)
        assert this.end()[0] == 2 * 20 * (4 + 1)  # 4096 bytes in packets of the path MTU, and an answer
        assert another.end()[0] == 0


def test_a_tracer_that_is_stopped(device, pingpong, tmp_path):
    """It loses packets, and says how many; the programs do not wait for it."""
    tracer = Tracer(device, tmp_path / "capture")
    tracer.program.send(signal.SIGSTOP)
    wait_until(lambda: stopped(tracer.program.pid), TIME_LIMIT, "the tracer to stop")
    for result in pingpong("ibv_rc_pingpong", "-s", "65536", "-n", "500"):
        expect_success(result)
    tracer.program.send(signal.SIGCONT)
    written, lost = tracer.end()
    assert lost > 0 and written == len(packets(tracer.path))


def test_as_many_as_there_may_be(device, tmp_path):
    tracers = [Tracer(device, tmp_path / str(i)) for i in range(TRACERS)]
    result = device.run(SIMHCA, "trace", "--write", tmp_path / "more")
    assert result.status == 1 and "there are as many traces as there may be" in result.stderr
    for tracer in tracers:
        tracer.end()
    Tracer(device, tmp_path / "again").end()


def test_a_program_and_its_packets(launcher, tmp_path):
    """`simhca run --trace`: from the first packet on. The payload is what it was then."""
    result = launcher.run(SIMHCA, "run", "--private", "--trace", tmp_path / "capture", "--",
                          "/usr/bin/python3", HERE / "failing.py", "fine")
    assert re.search(r"^simhca run: 2 packets, 0 lost$", expect_success(result).stderr, re.M)
    write, ack = packets(tmp_path / "capture")
    assert write.opcode == 0x0a and write.payload[16:] == bytes(range(64))
    assert ack.opcode == 0x11


@pytest.mark.skipif(not TSHARK, reason="there is no tshark")
def test_who_sent_it(device, pingpong, tmp_path):
    """Each packet has the name of its program, and the time at which it was sent."""
    tracer = Tracer(device, tmp_path / "capture")
    began = time.time()
    pair = pingpong("ibv_rc_pingpong", "-n", "20", "-s", "64")
    tracer.end()
    shown = subprocess.run([TSHARK, "-n", "-r", tracer.path, "-T", "fields", "-e", "frame.interface_name",
                            "-e", "frame.interface_description", "-e", "frame.time_epoch", "-e", "infiniband.bth.opcode"],
                           text=True, capture_output=True, timeout=TIME_LIMIT, check=True).stdout
    rows = [line.split("\t") for line in shown.splitlines()]
    names = {name for name, *_ in rows}
    assert len(rows) == 80 and len(names) == 2, rows
    assert all(re.fullmatch(r"ibv_rc_pingpong\[\d+\]", name) for name in names), names
    for name in names:
        assert sum(row[0] == name and row[1] == f"sent by {name}" and row[3] == "4" for row in rows) == 20
    times = [float(row[2]) for row in rows]
    assert began - 1 < times[0] and times == sorted(times) and times[-1] < time.time() + 1, pair


@pytest.mark.skipif(not TSHARK, reason="there is no tshark")
def test_short_sends_are_no_rpc(device, pingpong, tmp_path):
    """What the documents advise keeps Wireshark from taking short SENDs for RPC-over-RDMA."""
    tracer = Tracer(device, tmp_path / "capture")
    pingpong("ibv_rc_pingpong", "-n", "2", "-s", "8")
    tracer.end()

    def dissectors(*options):
        return subprocess.run([TSHARK, "-n", *options, "-r", tracer.path, "-T", "fields", "-e", "frame.protocols"],
                              text=True, capture_output=True, timeout=TIME_LIMIT, check=True).stdout

    root = HERE.parents[1]
    for page in "Documentation/watching.md", "man/simhca-trace.1":
        assert "tshark --disable-heuristic rpcrdma_infiniband" in (root / page).read_text(encoding="utf-8")
    advised = dissectors("--disable-heuristic", "rpcrdma_infiniband")
    assert "infiniband" in advised and "rpcordma" not in advised
    # Without it Wireshark guesses; when it does so no more, the advice can go.
    assert "rpcordma" in dissectors()


PINGPONGS = f"""
ibv_rc_pingpong -g 0 -n 10 -s 64 -p $1 & {wait_command("$1")}
ibv_rc_pingpong -g 0 -n 10 -s 64 -p $1 localhost; wait
"""


def test_replayed(launcher, tmp_path):
    """The faults of a capture happen again, to the same requests."""
    def run(name, *rules):
        options = [f"--inject={rule}" for rule in rules]
        result = expect_success(launcher.run(SIMHCA, "run", "--private", *options, "--trace", tmp_path / name, "--",
                                             "sh", "-c", PINGPONGS, "sh", new_port()))
        assert "simhca run: rule" not in result.stderr, result  # each has fired
        return expect_success(launcher.run(SIMHCA, "inject", "replay", tmp_path / name)).stdout

    sends = "opcode=SEND,SEND_WITH_IMM,SEND_WITH_INV"
    found = run("first", "rnr nth=9", "drop direction=response nth=14")
    assert found == f"rnr {sends} nth=9\ndrop {sends} nth=14\n"
    (tmp_path / "rules").write_text(found)
    # What a rule has lost is never on a link.
    assert run("second", tmp_path / "rules") == f"rnr {sends} nth=9\n"


def ipv4(options=0, protocol=UDP, fragment=0):
    """A header with so many bytes of options."""
    return bytes([0x40 | 5 + options // 4]) + bytes(5) + struct.pack(">HBB", fragment, 64, protocol) + bytes(10 + options)


def ipv6(protocol=UDP):
    return b"\x60" + bytes(5) + bytes([protocol]) + bytes(33)


def request(opcode, psn, qpn=0x11, types=b"\x08\x00", ip=ipv4()):
    """A request of RC in a frame, but for what nobody looks at."""
    bth = struct.pack(">BBHII", opcode, 0, 0xffff, qpn, psn)
    return bytes(12) + types + ip + struct.pack(">HHHH", 49152, ROCE, 0, 0) + bth + bytes(8)


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, ETHERNET))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def test_replay_of_a_part(launcher, tmp_path):
    """In a capture of others, in pcap: of a message in packets the second was missing; all of it is lost again."""
    first, middle, last, only = 0x06, 0x07, 0x08, 0x0a  # of RDMA WRITE
    sent = [(only, 0xffffff), (first, 0), (middle, 1), (last, 2), (middle, 1), (last, 2), (only, 3), (only, 3)]
    write_pcap(tmp_path / "capture", (request(*packet) for packet in sent))
    found = expect_success(launcher.run(SIMHCA, "inject", "replay", tmp_path / "capture")).stdout
    writes = "opcode=RDMA_WRITE,RDMA_WRITE_WITH_IMM"
    assert found == f"drop {writes} nth=2\ndrop {writes} nth=4\n"
    (tmp_path / "none").write_text("nothing of that kind")
    result = launcher.run(SIMHCA, "inject", "replay", tmp_path / "none")
    assert result.status == 1 and result.stderr.startswith(f"simhca inject: {tmp_path}/none: ")


VLAN, TWO_VLANS = b"\x81\x00\x00\x07", b"\x88\xa8\x00\x07\x81\x00\x00\x08"
SENT_TWICE = "drop opcode=SEND,SEND_WITH_IMM,SEND_WITH_INV nth=1\n"


@pytest.mark.parametrize("types, ip, found", [
    (b"\x08\x00", ipv4(options=20), True), (b"\x86\xdd", ipv6(), True),
    (VLAN + b"\x08\x00", ipv4(), True), (TWO_VLANS + b"\x86\xdd", ipv6(), True),
    (b"\x08\x00", ipv4(protocol=6), False), (b"\x08\x00", ipv4(fragment=1), False),
    (b"\x86\xdd", ipv6(protocol=6), False), (b"\x86\xdd", ipv4(options=20), False),
    (b"\x08\x06", ipv4(), False), (b"\x81\x00", b"", False), (VLAN, b"", False)])
def test_replay_of_frames_of_all_kinds(launcher, tmp_path, types, ip, found):
    """By EtherType, protocol and fragment; who finds no packet of RoCE v2 says so."""
    write_pcap(tmp_path / "capture", [request(4, 0, types=types, ip=ip)] * 2)
    result = launcher.run(SIMHCA, "inject", "replay", tmp_path / "capture")
    if found:
        assert expect_success(result).stdout == SENT_TWICE
    else:
        assert result.status == 1 and result.stdout == ""
        assert "none of its frames is a packet of RoCE v2" in result.stderr


def test_replay_of_two_destinations(launcher, tmp_path):
    """By address and QP: an IPv4 header with options is as long as one of IPv6, and has its address elsewhere."""
    one, other = ipv4(options=20), bytearray(ipv4(options=20))
    other[19] = 7
    write_pcap(tmp_path / "capture", [request(4, 0, ip=one), request(4, 0, ip=bytes(other))])
    assert expect_success(launcher.run(SIMHCA, "inject", "replay", tmp_path / "capture")).stdout == ""


def test_kinds_of_packets(device, pingpong, tmp_path):
    """By what they are for."""
    acks = Tracer(device, tmp_path / "acks", "--opcode", "ack,atomic")
    sends = Tracer(device, tmp_path / "sends", "--opcode", "send")
    pingpong("ibv_rc_pingpong", "-n", "20")
    assert acks.end()[0] and {packet.opcode for packet in packets(acks.path)} == {0x11}
    assert sends.end()[0] and {packet.opcode for packet in packets(sends.path)} <= set(range(6))


def test_of_a_queue_pair(device, pingpong, tmp_path):
    """Both directions of one QP, and nothing of others."""
    programs = start_pair(device, "ib_send_lat", "-F", "-e", "-n", "10000000")
    wait_until(lambda: len(used_qps(device)) == 2, TIME_LIMIT, "messages both ways")
    qpn, peer = used_qps(device)
    tracer = Tracer(device, tmp_path / "capture", "--qp", str(qpn), "--count", "20")
    pingpong("ibv_rc_pingpong", "-n", "20")
    expect_success(tracer.program.finish())
    assert {packet.dest_qpn for packet in packets(tracer.path)} == {qpn, peer}
    for program in programs:
        program.kill()


def qps(device):
    return json.loads(expect_success(device.run(SIMHCA, "qp", "--json")).stdout)


def used_qps(device):
    return [one["lqpn"] for one in qps(device) if one["usage"]["messages"]]


def test_the_fast_path_is_seen(tmp_path):
    """Who carries its messages itself leaves that to the device while somebody traces."""
    with Device("ethernet", "--daemon-option", "fast-path=on") as device:
        program = ("ibv_rc_pingpong", "-g", "0", "-s", "10000")
        tracer = Tracer(device, tmp_path / "capture")
        run_pair(device, *program, "-n", "20")
        assert tracer.end() == (2 * 20 * 11, 0)
        programs = start_pair(device, *program, "-e", "-n", "100000000")
        wait_until(lambda: steps(device), TIME_LIMIT, "the fast path")
        expect_success(Tracer(device, tmp_path / "later", "--count", "100").program.finish())
        before = steps(device)
        wait_until(lambda: steps(device) > before, TIME_LIMIT, "the fast path again")
        for one in programs:
            one.kill()


def steps(device):
    """Messages of the fast path."""
    return sum(one["fast_path"]["messages"] for one in qps(device) if one.get("fast_path"))


def test_a_ring_of_files(device, pingpong, tmp_path):
    """The last packets are in the last files, each of which is a capture of its own."""
    tracer = Tracer(device, tmp_path / "capture", "--file-size", "1", "--files", "2",
                    file=tmp_path / "capture.0")
    pingpong("ibv_rc_pingpong", "-s", "65536", "-n", "20")  # 2.5 MB
    written, _ = tracer.end()
    files = sorted(tmp_path.glob("capture.*"))
    assert [path.name for path in files] == ["capture.0", "capture.1"]
    sizes = [path.stat().st_size for path in files]
    assert all(size < 1.2 * (1 << 20) for size in sizes)
    assert 0 < sum(len(packets(path)) for path in files) < written


def test_no_room(launcher, device, pingpong, tmp_path):
    """The end of the room is said, with what is missing; what is there is whole."""
    result = device.run(SIMHCA, "trace", "--write", "/dev/full")
    assert result.status == 1 and result.stderr == "simhca trace: /dev/full: No space left on device\n"
    result = launcher.run(SIMHCA, "run", "--private", "--trace", "/dev/full", "--", "true")
    assert result.status == 125 and "/dev/full: No space left on device\n" in result.stderr

    path = tmp_path / "capture"
    tracer = device.start("sh", "-c", f"ulimit -f 100; exec {SIMHCA} trace --write {path}")
    wait_until(lambda: path.exists() and path.stat().st_size >= 24, TIME_LIMIT, "a capture")
    pingpong("ibv_rc_pingpong", "-n", "500")
    result = tracer.finish()
    assert result.status == 1
    said = re.fullmatch(rf"simhca trace: {path}: File too large: (\d+) packets could not be written\n"
                        r"simhca trace: (\d+) packets, (\d+) lost\n", result.stderr)
    written = len(packets(path))
    assert int(said[1]) > 0 and int(said[3]) >= int(said[1]) and int(said[2]) == written > 0


ROOM = ["unshare", "-Urm", "sh", "-c",
        'mount -t tmpfs -o size=64k none "$1" && shift && "$@"; status=$?; cp "$0/capture" "$0.kept"; exit $status']


@pytest.mark.skipif(subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                                   capture_output=True).returncode != 0,
                    reason="needs to mount a file system")
def test_a_full_disk(launcher, tmp_path):
    """`simhca run --trace`: the command is not hindered, and the exit status tells."""
    disk = tmp_path / "disk"
    disk.mkdir()
    port = new_port()
    pingpong = f"ibv_rc_pingpong -g 0 -n 500 -p {port}"
    result = launcher.run(*ROOM, disk, disk, SIMHCA, "run", "--private", "--trace", disk / "capture", "--",
                          "sh", "-c", f"{pingpong} & {wait_command(port)} && {pingpong} localhost && wait")
    assert result.status == 125 and "No space left on device" in result.stderr, result
    written, lost = re.search(r"^simhca run: (\d+) packets, (\d+) lost$", result.stderr, re.M).groups()
    assert int(lost) > 0 and int(written) == len(packets(tmp_path / "disk.kept")) > 0


def test_trace_runs_a_command(launcher, tmp_path):
    """With its filters, and the command's exit status."""
    result = launcher.run(SIMHCA, "trace", "--runtime-dir", tmp_path / "dir", "--write",
                          tmp_path / "capture", "--opcode", "write", "--", "sh", "-c",
                          f"/usr/bin/python3 {HERE / 'failing.py'} fine; exit 7")
    assert result.status == 7 and "1 packets, 0 lost" in result.stderr
    assert [packet.opcode for packet in packets(tmp_path / "capture")] == [0x0a]


@pytest.mark.skipif(not TSHARK, reason="there is no tshark")
def test_looking_on(device, pingpong, tmp_path):
    """`simhca trace --write - | tshark -i -`"""
    shark = device.start("sh", "-c", f"{SIMHCA} trace --write - --count 20 | {TSHARK} -n -i - -T fields "
                         "-e infiniband.bth.opcode", SIMHCA_RUNTIME_DIR=device.directory)
    wait_until(lambda: "Capturing on" in shark.stderr, TIME_LIMIT, "tshark has begun")
    pingpong("ibv_rc_pingpong", "-n", "20")
    assert len(expect_success(shark.finish()).stdout.split()) == 20


def test_the_communication_manager(device, tmp_path, launcher):
    """Its MADs are packets of QP 1."""
    if device.link_layer == "ib":
        pytest.skip("its addresses are those of interfaces, which an InfiniBand device has not here")
    tracer = Tracer(device, tmp_path / "capture")
    address = ipaddress.ip_address("127.0.0.1")
    server = device.start("rping", "-s", "-a", str(address), "-C", "2")
    client = device.run("sh", "-c", f"sleep 0.5; rping -c -a {address} -C 2")
    expect_success(client)
    expect_success(server.finish())
    tracer.end()
    assert {packet.opcode for packet in packets(tracer.path) if packet.dest_qpn == 1} == {0x64}
    expect_wireshark_agrees(tracer.path)
