# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Datagrams: addressing, Q_Keys, the GRH, lengths, and what is silently dropped."""
import ipaddress
import socket

import pytest
import verbs_enums as e
from pyverbs.addr import AH
from pyverbs.wr import SGE

from harness import (APIS, FLUSH, GRH_BYTES, PORT, QKEY, RC, SEND, SEND_IMM, SIGNALED, UD, pattern,
                     poll, poll_error, poll_nothing, poll_ok)
from programs import private_tests, run_c

pytestmark = pytest.mark.addresses

INLINE = SIGNALED | e.IBV_SEND_INLINE
RTS = e.IBV_QPS_RTS


@pytest.fixture(params=APIS)
def api(request):
    return request.param


@pytest.fixture
def ends(side):
    """Two UD ends in RTS."""

    def make(**options):
        made = side(UD, **options), side(UD, **options)
        for one in made:
            one.start()
        return made

    return make


def target(client, server, qkey=QKEY, qpn=None, **address):
    """(AH, QPN, Q_Key) of the server."""
    ah = AH(client.pd, attr=client.device.address(server.device, **address))
    return ah, server.qp.qp_num if qpn is None else qpn, qkey


@pytest.mark.parametrize('opcode', [SEND, SEND_IMM])
@pytest.mark.parametrize('size', [0, 1, 100, 4095, 4096])
def test_send(ends, api, opcode, size):
    """A datagram arrives behind the 40 bytes that are for the GRH, with the sender's number."""
    client, server = ends(ex=api == 'wr')
    client.region.write(pattern(size))
    server.region.write(b'\xee' * 8192)
    server.recv(wr_id=8)
    client.send(opcode, client.region.sge(0, size), ud=target(client, server), api=api, wr_id=1,
                imm=0x01020304)
    wc = poll_ok(client.scq)
    assert (wc.wr_id, wc.opcode) == (1, e.IBV_WC_SEND)
    wc = poll_ok(server.rcq)
    assert (wc.wr_id, wc.opcode, wc.byte_len) == (8, e.IBV_WC_RECV, GRH_BYTES + size)
    assert (wc.qp_num, wc.src_qp) == (server.qp.qp_num, client.qp.qp_num)
    assert bool(wc.wc_flags & e.IBV_WC_WITH_IMM) == (opcode == SEND_IMM)
    if opcode == SEND_IMM:
        assert socket.ntohl(wc.imm_data) == 0x01020304
    assert wc.slid == client.device.port.lid
    assert server.region.read(size + 1, GRH_BYTES) == pattern(size) + b'\xee'


def test_without_sge(ends, api):
    """A datagram without SGE; a receive of just 40 bytes takes it."""
    client, server = ends(ex=api == 'wr')
    server.recv(server.region.sge(0, GRH_BYTES))
    client.send(SEND, ud=target(client, server), api=api)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).byte_len == GRH_BYTES


def test_inline_and_many_sges(ends, api):
    """Inline data, gathering, and a GRH that is scattered like the rest."""
    client, server = ends(inline=512, ex=api == 'wr')
    client.region.write(pattern(600))
    server.recv()
    client.send(SEND, SGE(client.region.addr, 500, 0), flags=INLINE, ud=target(client, server),
                api=api)
    poll_ok(client.scq)
    poll_ok(server.rcq)
    assert server.region.read(500, GRH_BYTES) == pattern(600)[:500]
    server.recv(server.region.sge(1000, 30), server.region.sge(2000, 30),
                server.region.sge(3000, 300))
    client.send(SEND, client.region.sge(0, 100), client.region.sge(300, 200),
                ud=target(client, server), api=api)
    poll_ok(client.scq)
    assert poll_ok(server.rcq).byte_len == GRH_BYTES + 300
    data = pattern(600)[:100] + pattern(600)[300:500]
    assert server.region.read(20, 2010) == data[:20]
    assert server.region.read(280, 3000) == data[20:]


def test_too_long(ends, api):
    """One byte more than the port's MTU is the sender's own error; nothing is sent."""
    client, server = ends(ex=api == 'wr')
    server.recv()
    client.send(SEND, client.region.sge(0, 4097), ud=target(client, server), api=api, wr_id=1)
    assert poll_error(client.scq, e.IBV_WC_LOC_LEN_ERR, 'MSG_TOO_LONG').wr_id == 1
    poll_nothing(server.rcq)


def test_receive_too_short(ends):
    """
    A datagram that does not fit its receive is dropped: whoever knows the Q_Key could end the QP
    with one otherwise. The receive is there for the next.
    """
    client, server = ends()
    server.region.write(b'\xee' * 100)
    server.recv(server.region.sge(0, GRH_BYTES + 10), wr_id=1)
    client.send(SEND, client.region.sge(0, 11), ud=target(client, server))
    poll_ok(client.scq)
    poll_nothing(server.rcq)
    assert server.region.read(100) == b'\xee' * 100
    assert (client.state(), server.state()) == (RTS, RTS)
    client.send(SEND, client.region.sge(0, 10), ud=target(client, server))
    assert poll_ok(server.rcq).wr_id == 1


def test_order(ends):
    """Datagrams between the same two arrive in order."""
    client, server = ends()
    to = target(client, server)
    for number in range(64):
        server.recv(server.region.sge(128 * number, 128), wr_id=number)
    for number in range(64):
        client.send(SEND, client.region.sge(0, number), ud=to)
    assert [wc.byte_len for wc in poll_ok(server.rcq, 64)] == [40 + n for n in range(64)]


# ------------------------------------------------------------------------------ Q_Key

def test_wrong_qkey(ends):
    """A datagram with another Q_Key than the receiver's is dropped, and uses no receive."""
    client, server = ends()
    server.recv(wr_id=1)
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server, QKEY + 1))
    poll_ok(client.scq)
    poll_nothing(server.rcq)
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server))
    assert poll_ok(server.rcq).wr_id == 1


def test_own_qkey(side):
    """With the top bit set in the work request, the Q_Key of the sending QP is used instead."""
    client, server = side(UD), side(UD)
    client.start(qkey=0x4444)
    server.start(qkey=0x4444)
    server.recv(wr_id=1)
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server, 0x80000000 | 0x5555))
    assert poll_ok(server.rcq).wr_id == 1
    poll_ok(client.scq)


def test_changed_qkey(ends):
    """The Q_Key may be changed in RTS."""
    client, server = ends()
    server.modify(RTS, e.IBV_QP_QKEY, qkey=0x99)
    server.recv()
    server.recv()
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server))
    poll_nothing(server.rcq)
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server, 0x99))
    poll_ok(server.rcq)


# ------------------------------------------------------------------------- what is lost

def test_dropped(ends, side):
    """To nobody, to a QP of another type, to one without receives: sent, and gone."""
    client, server = ends()
    connected = side(RC)
    connected.start(connected)
    connected.recv()
    for qpn in (0x123456, connected.qp.qp_num, server.qp.qp_num):
        client.send(SEND, client.region.sge(0, 8), ud=target(client, server, qpn=qpn))
        poll_ok(client.scq)
    poll_nothing(connected.rcq)
    server.recv(wr_id=1)
    poll_nothing(server.rcq)
    assert (client.state(), server.state()) == (RTS, RTS)


def test_receiver_in_rtr(side):
    """RTR is enough to receive; in ERR nothing is received."""
    client, server = side(UD), side(UD)
    client.start()
    server.to_init()
    server.to_rtr()
    server.recv()
    server.recv()
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server))
    poll_ok(server.rcq)
    server.to(e.IBV_QPS_ERR)
    assert poll(server.rcq)[0].status == FLUSH
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server))
    poll_ok(client.scq, 2)
    poll_nothing(server.rcq)


def test_bad_local_buffer(ends):
    """The sender's own error stops its send queue."""
    client, server = ends()
    client.send(SEND, SGE(client.region.addr, 8, 0), ud=target(client, server))
    poll_error(client.scq, e.IBV_WC_LOC_PROT_ERR, 'KEY_UNKNOWN')
    assert client.state() == e.IBV_QPS_SQE


# --------------------------------------------------------------------------------- GRH

def _checksum(header):
    total = sum(int.from_bytes(header[i:i + 2], 'big') for i in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def test_grh(ends, ethernet):
    """With a GRH: the flag is set, and the 40 bytes are the header, of IPv6 form or of IPv4."""
    client, server = ends()
    for entry in client.ctx.query_gid_table(8):
        gid = bytes.fromhex(entry.gid_str().replace(':', ''))
        attr = client.device.address(grh=True, gid_index=entry.gid_index)
        attr.hop_limit, attr.traffic_class, attr.flow_label = 7, 0x20, 0x12345
        ah = AH(client.pd, attr=attr)
        server.recv()
        client.send(SEND, client.region.sge(0, 16), ud=(ah, server.qp.qp_num, QKEY))
        wc = poll_ok(server.rcq)
        assert wc.wc_flags == e.IBV_WC_GRH
        header = server.region.read(GRH_BYTES)
        address = ipaddress.IPv6Address(gid)
        # On RoCE there is no service level: bit 3 is UDP, the others are 1 for IPv6, 2 for IPv4.
        assert wc.sl == ((10 if address.ipv4_mapped else 9) if ethernet else 0)
        if address.ipv4_mapped:
            ip = header[20:]
            assert ip[0] == 0x45 and ip[8] == 7 and ip[9] == 17
            assert ip[12:16] == ip[16:20] == address.ipv4_mapped.packed
            assert _checksum(ip) == 0xffff
            assert header[0] >> 4 != 6
        else:
            assert header[:4] == (6 << 28 | 0x20 << 20 | 0x12345).to_bytes(4, 'big')
            transport = (17, 8 + 40) if ethernet else (0x1b, 40)  # RoCE v2: UDP
            assert (header[6], int.from_bytes(header[4:6], 'big')) == transport
            assert header[7] == 7
            assert header[8:24] == header[24:40] == gid
        ah.close()


def test_no_grh(ends, ethernet):
    """On InfiniBand without a GRH: no flag, and the 40 bytes stay as they are."""
    if ethernet:
        return  # there is always one
    client, server = ends()
    server.region.write(b'\xee' * 100)
    server.recv()
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server, grh=False))
    wc = poll_ok(server.rcq)
    assert (wc.wc_flags, wc.byte_len, wc.slid) == (0, GRH_BYTES + 8, client.device.port.lid)
    assert server.region.read(100) == b'\xee' * 40 + bytes(8) + b'\xee' * 52


@pytest.mark.parametrize('grh', [True, False])
def test_answer_by_completion(ends, ethernet, grh):
    """An AH made of a completion and its GRH leads back to the sender."""
    if ethernet and not grh:
        return
    client, server = ends()
    for entry in client.ctx.query_gid_table(8) if grh else [None]:
        server.recv()
        client.recv()
        index = entry.gid_index if grh else None
        client.send(SEND, client.region.sge(0, 8),
                    ud=target(client, server, grh=grh, gid_index=index))
        poll_ok(client.scq)
        wc = poll_ok(server.rcq)
        back = AH(server.pd, wc=wc, grh=server.region.addr, port_num=PORT)
        server.send(SEND, server.region.sge(0, 9), ud=(back, wc.src_qp, QKEY))
        poll_ok(server.scq)
        wc = poll_ok(client.rcq)
        assert (wc.src_qp, wc.byte_len) == (server.qp.qp_num, GRH_BYTES + 9)
        back.close()


def test_address_handle_is_copied(ends):
    """An AH may be destroyed once the send that uses it has completed, and others go on."""
    client, server = ends()
    for number in range(20):
        to = target(client, server)
        server.recv()
        client.send(SEND, client.region.sge(0, 8), ud=to)
        poll_ok(client.scq)
        to[0].close()
        poll_ok(server.rcq)


def test_ud_over_the_port_mtu():
    """The longest datagram follows the port's MTU."""
    private_tests('test_ud.py::test_small_mtu', options=('--mtu', '1024'))


def test_small_mtu(ends):
    """Up to the active MTU, not one byte more."""
    client, server = ends()
    mtu = 128 << client.device.port.active_mtu
    for size in (mtu, mtu + 1):
        server.recv()
        client.send(SEND, client.region.sge(0, size), ud=target(client, server))
        if size == mtu:
            poll_ok(client.scq)
            poll_ok(server.rcq)
        else:
            poll_error(client.scq, e.IBV_WC_LOC_LEN_ERR, 'MSG_TOO_LONG')


# --------------------------------------------------------------------------- multicast

def test_multicast(c_program):
    """Attaching and detaching, who gets a copy, who does not, and what is refused."""
    run_c(c_program('multicast.c'))


def test_multicast_without_members(ends):
    """Nothing is attached: a datagram to a group is sent and lost."""
    client, _ = ends()
    attr = client.device.address(grh=True)
    attr.dgid = 'ff12:0000:0000:0000:0000:0000:0000:0001'
    attr.dlid = 0xc001
    ah = AH(client.pd, attr=attr)
    client.send(SEND, client.region.sge(0, 8), ud=(ah, 0xffffff, QKEY))
    poll_ok(client.scq)


def test_unreliable_has_no_events(ends):
    """Lost datagrams raise nothing at either end."""
    client, server = ends()
    client.send(SEND, client.region.sge(0, 8), ud=target(client, server, QKEY + 1))
    poll_ok(client.scq)
    client.device.no_event(0.02)
    server.device.no_event(0.02)
