# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the tests share: memory, regions, one end of a connection, waiting with a bound.

A test makes Sides (a context with its own PD, CQs, region and QP), connects two of them, posts
with post_send() through either interface, and looks at completions, memory and events.
"""
import contextlib
import ctypes
import mmap
import os
import random
import re
import select
import socket
import time

import verbs_enums as e
from pyverbs import mem_alloc
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import (QP, DataBuffer, QPAttr, QPCap, QPEx, QPInitAttr,
                        QPInitAttrEx)
from pyverbs.wr import SGE, RecvWR, SendWR

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
TIMEOUT = 10  # seconds that a poll may take

PORT = 1
PAGE = os.sysconf('SC_PAGESIZE')
HUGE_PAGE = 2 << 20
LARGE = 8 * HUGE_PAGE  # such a mapping has huge pages where the kernel gives them
GRH_BYTES = 40
MAX_MSG = 1 << 30
QKEY = 0x11111111

LOCAL_WRITE = e.IBV_ACCESS_LOCAL_WRITE
REMOTE_WRITE = e.IBV_ACCESS_REMOTE_WRITE
REMOTE_READ = e.IBV_ACCESS_REMOTE_READ
REMOTE_ATOMIC = e.IBV_ACCESS_REMOTE_ATOMIC
FULL = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC

RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
SIGNALED = e.IBV_SEND_SIGNALED
SEND = e.IBV_WR_SEND
SEND_IMM = e.IBV_WR_SEND_WITH_IMM
WRITE = e.IBV_WR_RDMA_WRITE
WRITE_IMM = e.IBV_WR_RDMA_WRITE_WITH_IMM
READ = e.IBV_WR_RDMA_READ
CMP_SWP = e.IBV_WR_ATOMIC_CMP_AND_SWP
FETCH_ADD = e.IBV_WR_ATOMIC_FETCH_AND_ADD
libc = ctypes.CDLL(None)

APIS = ('post_send', 'wr')

SUCCESS = e.IBV_WC_SUCCESS
FLUSH = e.IBV_WC_WR_FLUSH_ERR

SEND_OPS = {
    RC: (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM
         | e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
         | e.IBV_QP_EX_WITH_RDMA_READ | e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
         | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | e.IBV_QP_EX_WITH_BIND_MW
         | e.IBV_QP_EX_WITH_LOCAL_INV | e.IBV_QP_EX_WITH_SEND_WITH_INV),
    UC: (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM
         | e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
    UD: e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM,
}

INIT_MASK = {
    RC: e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS,
    UC: e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS,
    UD: e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY,
}
RTR_MASK = {
    RC: (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN
         | e.IBV_QP_RQ_PSN | e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER),
    UC: (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN
         | e.IBV_QP_RQ_PSN),
    UD: e.IBV_QP_STATE,
}
RTS_MASK = {
    RC: (e.IBV_QP_STATE | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY
         | e.IBV_QP_SQ_PSN | e.IBV_QP_MAX_QP_RD_ATOMIC),
    UC: e.IBV_QP_STATE | e.IBV_QP_SQ_PSN,
    UD: e.IBV_QP_STATE | e.IBV_QP_SQ_PSN,
}

# Short timers, so that a test of what happens after the last retry is short as well.
ATTRIBUTES = {
    'pkey_index': 0,
    'port_num': PORT,
    'qp_access_flags': FULL,
    'qkey': QKEY,
    'path_mtu': e.IBV_MTU_1024,
    'max_dest_rd_atomic': 16,
    'min_rnr_timer': 1,  # 10 us
    'timeout': 8,  # 1 ms
    'retry_cnt': 3,
    'rnr_retry': 7,  # without end
    'max_rd_atomic': 16,
    'rq_psn': 0xfffffd,  # wraps early
    'sq_psn': 0xfffffd,
}


def _read_reasons():
    with open(os.path.join(REPO, 'kernel-abi', 'simhca-abi-reason.h'), encoding='utf-8') as header:
        return {name: int(value) for name, value in
                re.findall(r'^\s*X\((\w+), (\d+),', header.read(), re.M)}


REASON = _read_reasons()  # name: value of vendor_err
REASON_NAME = {value: name for name, value in REASON.items()}


def pattern(length, seed=1):
    """Bytes that are different at every offset and for every seed."""
    return random.Random(seed).randbytes(length)


def status_name(status):
    names = [name for name in dir(e) if name.startswith('IBV_WC_') and name.endswith('_ERR')
             and getattr(e, name) == status]
    return names[0] if names else str(status)


def is_type_2a(ctx):
    """Whether type 2 windows are of type 2A; else they are of type 2B."""
    return bool(ctx.query_device().device_cap_flags & e.IBV_DEVICE_MEM_WINDOW_TYPE_2A)


# ----------------------------------------------------------------------------- waiting

def poll(cq, count=1, timeout=TIMEOUT):
    """The next count completions of cq, in order."""
    found = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        number, completions = cq.poll(count - len(found))
        found += completions
        if not number:
            if time.monotonic() > deadline:
                raise AssertionError(f'{len(found)} of {count} completions within {timeout} s')
            time.sleep(0.00005)
    return found


def poll_ok(cq, count=1, timeout=TIMEOUT):
    """The next count completions, none of which may be an error; one as itself, else a list."""
    found = poll(cq, count, timeout)
    for wc in found:
        assert wc.status == SUCCESS, (status_name(wc.status), REASON_NAME.get(wc.vendor_err))
    return found[0] if count == 1 else found


def poll_error(cq, status, reason):
    """The next completion: it must have this status, and the reason of this name."""
    wc = poll(cq)[0]
    assert (status_name(wc.status), REASON_NAME.get(wc.vendor_err, wc.vendor_err)) == (
        status_name(status), reason)
    return wc


def poll_nothing(cq, seconds=0.05):
    """No completion comes for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        number, found = cq.poll(1)
        assert not number, (found[0].wr_id, status_name(found[0].status))
        time.sleep(0.002)


def eventually(condition, timeout=TIMEOUT):
    """Waits until condition() is true, and returns what it returned."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f'not within {timeout} s'
        time.sleep(0.002)


def readable(fd, timeout=TIMEOUT):
    return bool(select.select([fd], [], [], timeout)[0])


@contextlib.contextmanager
def refused(error):
    """The verb in this block fails with this errno."""
    with _raises() as caught:
        yield caught
    assert caught.error_code == error, (caught.error_code, error, caught.text)


class _raises:
    """A PyverbsRDMAError is raised in the block; its errno is kept."""

    def __enter__(self):
        self.error_code = None
        return self

    def __exit__(self, kind, value, traceback):
        assert value is not None, 'was not refused'
        if not isinstance(value, PyverbsRDMAError):
            return False
        self.error_code = value.error_code
        self.text = str(value)
        return True


# ------------------------------------------------------------------- descriptors of a context

def _streams():
    """Stream sockets of this process: pipes of events are such."""
    streams = set()
    for name in os.listdir('/proc/self/fd'):
        with contextlib.suppress(OSError):
            if not os.readlink(f'/proc/self/fd/{name}').startswith('socket:'):
                continue
            with socket.socket(fileno=os.dup(int(name))) as end:
                if (end.family, end.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
                    streams.add(int(name))
    return streams


def with_pipe(make):
    """Calls make(), and returns its result with the descriptor of the pipe that it opened. The
    device's end of it, which a context has as well, says that it can be written."""
    before = _streams()
    made = make()
    opened = [fd for fd in _streams() - before if not select.select([], [fd], [], 0)[1]]
    assert len(opened) == 1, f'one pipe to read events from, not {len(opened)}'
    return made, opened.pop()


class Channel:
    """A completion channel whose descriptor can be waited for."""

    def __init__(self, ctx):
        self.channel, self.fd = with_pipe(lambda: CompChannel(ctx))

    def event(self, cq, timeout=TIMEOUT):
        """Takes and acknowledges the next event, which must be of this CQ."""
        assert readable(self.fd, timeout), 'no completion event came'
        self.channel.get_cq_event(cq)
        cq.ack_events(1)

    def silent(self, seconds=0.05):
        assert not readable(self.fd, seconds), 'a completion event came'

    def close(self):
        self.channel.close()


class Device:
    """An open device; events wait in a pipe, so that a test can wait for them with a bound."""

    def __init__(self, name=None):
        name = name or get_device_list()[0].name.decode()
        self.ctx, self.async_fd = with_pipe(lambda: Context(name=name))
        self.port = self.ctx.query_port(PORT)
        self.ethernet = self.port.link_layer == e.IBV_LINK_LAYER_ETHERNET
        self.gid_index = next(entry.gid_index for entry in
                              self.ctx.query_gid_table(self.port.gid_tbl_len))

    def event(self, timeout=TIMEOUT):
        """The type of the next asynchronous event, which is acknowledged."""
        assert readable(self.async_fd, timeout), 'no asynchronous event came'
        event = self.ctx.get_async_event()
        event.ack()
        return event.event_type

    def no_event(self, seconds=0.05):
        assert not readable(self.async_fd, seconds), self.event()

    def address(self, peer=None, gid_index=None, grh=None):
        """How to reach the peer's port (our own: loopback); a GRH only where one is needed."""
        peer = peer or self
        grh = self.ethernet if grh is None else grh
        if not grh:
            return AHAttr(dlid=peer.port.lid, port_num=PORT)
        index = self.gid_index if gid_index is None else gid_index
        route = GlobalRoute(dgid=peer.ctx.query_gid(PORT, index), sgid_index=index, hop_limit=64)
        return AHAttr(dlid=peer.port.lid, is_global=1, port_num=PORT, gr=route)

    def close(self):
        self.ctx.close()


# ---------------------------------------------------------------------- memory and regions

_next_place = 1 << 45  # not in the shadow of AddressSanitizer


def a_place(length):
    """
    An address for a mapping, far from where the kernel puts those that have none: what a test
    unmaps there stays unmapped, and is not an allocator's the next moment.
    """
    global _next_place
    place = _next_place
    _next_place += (length + HUGE_PAGE) // HUGE_PAGE * HUGE_PAGE
    return place


class Memory:
    """Pages of our own, to which any access can be given or taken."""

    def __init__(self, length, prot=None):
        self.length = max(length, 1)
        prot = mem_alloc.PROT_READ_ | mem_alloc.PROT_WRITE_ if prot is None else prot
        self.addr = mem_alloc.mmap(addr=a_place(self.length), length=self.length, prot=prot, fd=-1)
        if length >= LARGE:
            libc.madvise(ctypes.c_void_p(self.addr), ctypes.c_size_t(self.length),
                         mmap.MADV_HUGEPAGE)

    def write(self, data, offset=0):
        mem_alloc.write(self.addr, data, len(data), offset)

    def read(self, length, offset=0):
        return mem_alloc.read(self.addr, length, offset)

    def close(self):
        if self.addr:
            mem_alloc.munmap(self.addr, self.length)
        self.addr = 0


class Region:
    """A memory region over pages of its own."""

    def __init__(self, pd, length, access=FULL, memory=None):
        self.memory = memory or Memory(length)
        self.length = length
        self.mr = MR(pd, length, access, address=self.memory.addr)
        self.addr = self.memory.addr
        self.write = self.memory.write
        self.read = self.memory.read

    @property
    def lkey(self):
        return self.mr.lkey

    @property
    def rkey(self):
        return self.mr.rkey

    def sge(self, offset=0, length=None):
        return SGE(self.addr + offset, self.length - offset if length is None else length,
                   self.lkey)

    def at(self, offset=0):
        """(address, rkey) for the peer."""
        return self.addr + offset, self.rkey

    def close(self):
        self.mr.close()
        self.memory.close()


# --------------------------------------------------------------------------- one end

def qp_attr(**values):
    attr = QPAttr()
    for name, value in values.items():
        setattr(attr, name, value)
    return attr


class Side:
    """One end: a context, a PD, a send and a receive CQ, a region, a QP in RESET."""

    def __init__(self, qp_type=RC, *, size=1 << 16, access=FULL, device=None, pd=None, cqe=256,
                 scq=None, rcq=None, srq=None, sig_all=0, ex=False, send_wr=64, recv_wr=64,
                 send_sge=4, recv_sge=4, inline=64):
        self.own_device = device is None
        self.device = device or Device()
        self.ctx = self.device.ctx
        self.pd = pd or PD(self.ctx)
        self.scq = scq or CQ(self.ctx, cqe)
        self.rcq = rcq or CQ(self.ctx, cqe)
        self.region = Region(self.pd, size, access) if size else None
        self.regions = []
        cap = QPCap(max_send_wr=send_wr, max_recv_wr=0 if srq else recv_wr,
                    max_send_sge=send_sge, max_recv_sge=0 if srq else recv_sge,
                    max_inline_data=inline)
        if ex:
            attr = QPInitAttrEx(qp_type=qp_type, scq=self.scq, rcq=self.rcq, srq=srq, cap=cap,
                                sq_sig_all=sig_all, pd=self.pd, send_ops_flags=SEND_OPS[qp_type],
                                comp_mask=(e.IBV_QP_INIT_ATTR_PD
                                           | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
            self.qp = QPEx(self.ctx, attr)
        else:
            attr = QPInitAttr(qp_type=qp_type, scq=self.scq, rcq=self.rcq, srq=srq, cap=cap,
                              sq_sig_all=sig_all)
            self.qp = QP(self.pd, attr)
        self.cap = attr.cap
        self.qp_type = qp_type
        self.attributes = dict(ATTRIBUTES)

    def new_region(self, length, access=FULL, pd=None, memory=None):
        region = Region(pd or self.pd, length, access, memory)
        self.regions.append(region)
        return region

    # -- states

    def modify(self, state, mask, **values):
        chosen = {**self.attributes, **values}
        names = {'ah_attr': e.IBV_QP_AV, 'dest_qp_num': e.IBV_QP_DEST_QPN}
        values = {name: value for name, value in chosen.items()
                  if name not in names or mask & names[name]}
        self.qp.modify(qp_attr(qp_state=state, **values), mask)

    def to_init(self, **values):
        self.modify(e.IBV_QPS_INIT, INIT_MASK[self.qp_type], **values)

    def to_rtr(self, peer=None, **values):
        if self.qp_type != UD:
            values = {'ah_attr': self.device.address(peer.device if peer else None),
                      'dest_qp_num': peer.qp.qp_num if peer else 0, **values}
        self.modify(e.IBV_QPS_RTR, RTR_MASK[self.qp_type], **values)

    def to_rts(self, **values):
        self.modify(e.IBV_QPS_RTS, RTS_MASK[self.qp_type], **values)

    def to(self, state):
        """To RESET, ERR or SQD, which take no attributes."""
        self.qp.modify(qp_attr(qp_state=state), e.IBV_QP_STATE)

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def start(self, peer=None, **values):
        """From RESET to RTS; a UD QP needs no peer."""
        self.attributes.update(values)
        self.to_init()
        self.to_rtr(peer)
        self.to_rts()

    # -- posting

    def recv(self, *sges, wr_id=0):
        sges = sges or (self.region.sge(),)
        self.qp.post_recv(RecvWR(wr_id, len(sges), list(sges)))

    def send(self, opcode=SEND, *sges, api='post_send', wr_id=0, flags=SIGNALED, imm=0, to=None,
             compare_add=0, swap=0, ud=None):
        """
        Posts one work request. to: (remote address, rkey); ud: (AH, QPN, Q_Key); with
        IBV_SEND_INLINE the SGEs name the data, and their keys do not matter.
        """
        if api == 'wr':
            self._send_wr(opcode, sges, wr_id, flags, imm, to, compare_add, swap, ud)
            return
        wr = SendWR(wr_id, opcode, max(len(sges), 1), socket.htonl(imm),
                    list(sges) or [SGE(0, 0, 0)], flags)
        wr.num_sge = len(sges)
        if opcode in (CMP_SWP, FETCH_ADD):
            wr.set_wr_atomic(to[1], to[0], compare_add, swap)
        elif to:
            wr.set_wr_rdma(to[1], to[0])
        if ud:
            wr.set_wr_ud(*ud)
        self.qp.post_send(wr)

    def _send_wr(self, opcode, sges, wr_id, flags, imm, to, compare_add, swap, ud):
        qp = self.qp
        qp.wr_start()
        qp.wr_id = wr_id
        qp.wr_flags = flags
        if opcode == SEND:
            qp.wr_send()
        elif opcode == SEND_IMM:
            qp.wr_send_imm(imm)
        elif opcode == WRITE:
            qp.wr_rdma_write(to[1], to[0])
        elif opcode == WRITE_IMM:
            qp.wr_rdma_write_imm(to[1], to[0], imm)
        elif opcode == READ:
            qp.wr_rdma_read(to[1], to[0])
        elif opcode == CMP_SWP:
            qp.wr_atomic_cmp_swp(to[1], to[0], compare_add, swap)
        elif opcode == FETCH_ADD:
            qp.wr_atomic_fetch_add(to[1], to[0], compare_add)
        if ud:
            qp.wr_set_ud_addr(*ud)
        if flags & e.IBV_SEND_INLINE:
            if len(sges) == 1:
                qp.wr_set_inline_data(sges[0].addr, sges[0].length)
            else:
                buffers = [DataBuffer(sge.addr, sge.length) for sge in sges]
                qp.wr_set_inline_data_list(len(buffers), buffers)
        elif len(sges) == 1:
            qp.wr_set_sge(sges[0])
        elif sges:
            qp.wr_set_sge_list(len(sges), list(sges))
        qp.wr_complete()

    def close(self):
        self.qp.close()
        for region in self.regions + ([self.region] if self.region else []):
            region.close()
        if self.own_device:
            self.device.close()


def connect(one, other, one_has=None, other_has=None):
    """Both from RESET to RTS, each with attributes of its own if given."""
    one.attributes.update(one_has or {})
    other.attributes.update(other_has or {})
    for side, peer in ((one, other), (other, one)):
        side.to_init()
        side.to_rtr(peer)
    for side in (one, other):
        side.to_rts()
