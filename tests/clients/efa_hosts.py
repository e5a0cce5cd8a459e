# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
SRD between two hosts, by Debian's pyverbs and libefa: messages and a read with their data checked, and how
work requests fail.

    efa_hosts.py GID                    the server: takes from there; prints its QP's number, rkey and address
    efa_hosts.py GID QPN RKEY ADDRESS   the client: prints a line for each thing that it has done,
                                        and waits for SIGUSR1
"""
import signal
import sys

import verbs_enums as e
from pyverbs.addr import GID

from efa_messages import ROOM, End, expect

LENGTHS = [0, 1, 33, 3000, ROOM]
SENT = [chr(ord("a") + number) for number in range(len(LENGTHS))]


def serve(gid):
    end = End("simhca0")
    back = end.address(GID(gid))
    end.recv()
    print(end.qp.qp_num, end.mr.rkey, end.mr.buf, flush=True)
    for length, letter in zip(LENGTHS, SENT):
        got = end.done()
        assert got.status == e.IBV_WC_SUCCESS and got.byte_len == length, (got.status, got.byte_len)
        assert end.mr.read(length, 0) == letter.encode() * length
        end.recv(length=10 if length == LENGTHS[-1] else ROOM)
    assert end.done().vendor_err == 6
    end.recv()
    got = end.done()
    assert got.status == e.IBV_WC_SUCCESS and got.wc_flags & e.IBV_WC_WITH_IMM
    print("done", flush=True)
    del back


def send_all(gid, qpn, rkey, address):
    end = End("simhca0")
    there = end.address(GID(gid))
    for length, letter in zip(LENGTHS, SENT):
        end.mr.write(letter * length, length)
        end.send(there, qpn, length)
        expect(f"send {length}", end.done().status == e.IBV_WC_SUCCESS)
    end.mr.write("-" * ROOM, ROOM)
    end.send(there, qpn, ROOM, read=(rkey, address))
    expect("read", end.done().status == e.IBV_WC_SUCCESS and end.mr.read(ROOM, 0) == SENT[-1].encode() * ROOM)
    for what, how in {"rkey": {"read": (0x123400, address)}, "past the end": {"read": (rkey, address + 1)},
                      "QPN": {"qpn": 4000}, "qkey": {"qkey": 1}, "too long": {}}.items():
        end.send(there, how.pop("qpn", qpn), ROOM, **how)
        print(what, end.done().vendor_err, flush=True)
    nobody = end.address(GID("0000:0000:0000:0000:0000:ffff:0a63:0063"))
    end.send(nobody, qpn, 64)
    print("nobody", end.done().vendor_err, flush=True)
    end.send(there, qpn, 64, imm=7)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    expect("immediate", end.done().status == e.IBV_WC_SUCCESS)
    signal.sigwait([signal.SIGUSR1])


if len(sys.argv) == 2:
    serve(sys.argv[1])
else:
    send_all(sys.argv[1], *map(int, sys.argv[2:]))
