# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Captures of `simhca trace`: what is in them, and what Wireshark says of it."""
import re
import shutil
import signal
import struct
import subprocess
import typing
import zlib

import pytest

from common import SIMHCA, TIME_LIMIT, expect_success, wait_until

SECTION, INTERFACE, PACKET = 0x0a0d0d0a, 1, 6  # pcapng's blocks
BYTE_ORDER, ETHERNET = 0x1a2b3c4d, 1
UDP, ROCE = 17, 4791
TSHARK = shutil.which("tshark")


class Packet(typing.NamedTuple):
    opcode: int
    dest_qpn: int
    psn: int
    payload: bytes  # and headers behind the BTH


def add16(data):
    """The Internet checksum, before its complement."""
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def decode(frame):
    """All that can be checked of a frame is: lengths, checksums, the ICRC (annex A17.3.3)."""
    kind, = struct.unpack(">H", frame[12:14])
    ip = frame[14:]
    if kind == 0x0800:
        assert add16(ip[:20]) == 0xffff and ip[9] == UDP
        header, rest = bytearray(ip[:20]), ip[20:]
        assert struct.unpack(">H", ip[2:4])[0] == len(ip)
        header[1], header[8], header[10:12] = 0xff, 0xff, b"\xff\xff"
    else:
        assert kind == 0x86dd and ip[6] == UDP
        header, rest = bytearray(ip[:40]), ip[40:]
        assert struct.unpack(">H", ip[4:6])[0] == len(rest)
        assert add16(ip[8:40] + struct.pack(">II", len(rest), UDP) + rest) == 0xffff
        header[0:4], header[7] = bytes([header[0] | 0x0f, 0xff, 0xff, 0xff]), 0xff
    port, length = struct.unpack(">HH", rest[2:6])
    assert port == ROCE and length == len(rest)
    bth = bytearray(rest[8:20])
    masked = bytes(bth[:4]) + b"\xff" + bytes(bth[5:])
    crc = zlib.crc32(b"\xff" * 8 + bytes(header) + rest[:6] + b"\xff\xff" + masked + rest[20:-4])
    assert struct.unpack("<I", rest[-4:])[0] == crc
    return Packet(bth[0], int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big"),
                  rest[20:-4])


def blocks(path):
    """Type and body of each block of a pcapng file."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4)[0] == length
        yield kind, data[at + 8:at + length - 4]
        at += length


def frames(path):
    section, *others = blocks(path)
    assert section[0] == SECTION and section[1].startswith(struct.pack("<IHH", BYTE_ORDER, 1, 0))
    interfaces = 0
    for kind, body in others:
        if kind == INTERFACE:
            assert struct.unpack_from("<H", body)[0] == ETHERNET
            interfaces += 1
        else:
            interface, _, _, kept, length = struct.unpack_from("<IIIII", body)
            assert kind == PACKET and interface < interfaces
            yield body[20:20 + kept], length


def packets(path):
    return [decode(frame) for frame, length in frames(path) if len(frame) == length]


def expect_wireshark_agrees(path):
    if not TSHARK:
        pytest.skip("tshark is not installed: nobody else looks at the captures")
    # It takes payload that begins like an Ethernet frame for one, which random bytes sometimes do.
    ours = '!(frame.protocols contains "infiniband:")'
    wrong = subprocess.run([TSHARK, "-r", path, "-Y", f"{ours} && (_ws.expert || _ws.malformed)"],
                           text=True, capture_output=True, timeout=TIME_LIMIT, check=True).stdout
    assert wrong == ""


class Tracer:
    """`simhca trace` that has begun."""

    def __init__(self, device, path, *options, file=None):
        self.path = path
        first = file or path
        self.program = device.start(SIMHCA, "trace", "--write", path, *options)
        # The head of the file is written once the daemon traces.
        wait_until(lambda: first.exists() and first.stat().st_size >= 24, TIME_LIMIT, "a capture")

    def end(self):
        self.program.send(signal.SIGINT)
        result = expect_success(self.program.finish())
        counts = re.fullmatch(r"simhca trace: (\d+) packets, (\d+) lost\n", result.stderr)
        return int(counts[1]), int(counts[2])
