# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What is legal and probably wrong, as its argument names it; with a second one, how it should be."""
import ctypes
import mmap
import os
import resource
import sys
import tempfile
import threading
import time
import warnings

import verbs_enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, DataBuffer, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, SendWR

from pair import ACCESS, Pair

# Python 3.12 and newer warn of fork() beside the threads of the provider; the children here do without locks.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
WRITE = e.IBV_WR_RDMA_WRITE


def write_unseen(pair, count, flags=e.IBV_SEND_SIGNALED, first=0):
    """So many writes, the last of which is seen in memory, not by its completion."""
    for i in range(first, first + count):
        pair.mr.write(bytes([i + 1] * 64), 64)
        pair.send(i, WRITE, to=64, flags=flags)
        while pair.mr.read(64, 64) != bytes([i + 1] * 64):
            pass


def never_polled(good):
    pair = Pair()
    write_unseen(pair, 1)
    if good:
        pair.poll(1)


def late_receive(good):
    pair = Pair(rnr_retry=7)
    if good:
        pair.receive(1)
    pair.send(1, e.IBV_WR_SEND)
    if not good:
        time.sleep(0.05)
        pair.receive(1)
    pair.poll(2)


def rnr(good):
    pair = Pair(rnr_retry=7, rnr_timer=20)  # 10 ms
    pair.receive(2 if good else 1)
    pair.send(1, e.IBV_WR_SEND)
    pair.send(2, e.IBV_WR_SEND)
    if not good:
        time.sleep(0.05)
        pair.receive(1)
    pair.poll(4)


def registrations(good):
    pair = Pair()
    mr = MR(pair.pd, 64, ACCESS)
    for i in range(40):
        if not good:
            mr.close()
            mr = MR(pair.pd, 64, ACCESS)
        pair.send(i, WRITE)
        pair.poll(1)


def cq_size(good):
    pair = Pair(cqe=16)
    assert 16 <= pair.cq.cqe < 40
    for i in range(pair.cq.cqe - 1):
        write_unseen(pair, 1, first=i)
        if good:
            pair.poll(1)


def unsignaled(good):
    pair = Pair(sig_all=0)
    count = pair.qp.query(e.IBV_QP_CAP)[0].cap.max_send_wr
    write_unseen(pair, count // 2, flags=0)
    if good:
        write_unseen(pair, 1, first=count)
    write_unseen(pair, count - count // 2 - good, flags=0)


def requests_of_mr(good, wr_id=7):
    pair = Pair(rnr_retry=7)
    mr, pair.mr = pair.mr, MR(pair.pd, 4096, ACCESS)
    if good:
        pair.receive(1)
    pair.send(wr_id, e.IBV_WR_SEND)  # it waits for a receive, unless there is one
    if good:
        pair.poll(2)
    pair.mr.close()
    pair.mr = mr


def rd_atomic(good):
    """In either order the second end to get there is the one that is looked at."""
    pairs = [Pair(reads=1 if good else 4, peer_first=peer_first) for peer_first in (False, True)]
    for pair in pairs:
        pair.send(1, WRITE)
        pair.poll(1)


def own_peer(good):
    pair = Pair()
    qp = pair.make()
    pair.connect(qp, pair.make() if good else qp)


def requests_of_qp(good):
    pair = Pair(rnr_retry=7)
    if good:
        pair.receive(1)
    pair.send(7, e.IBV_WR_SEND)  # it waits for a receive, unless there is one
    if good:
        pair.poll(2)
    pair.qp.close()


def other_pd(good, extended=False):
    """Datagrams, by both ways of posting."""
    pair = Pair()
    gid = pair.context.query_gid(1, 0)
    ah = AH(pair.pd if good else PD(pair.context),
            attr=AHAttr(gr=GlobalRoute(dgid=gid), is_global=1, port_num=1))
    init = {"qp_type": e.IBV_QPT_UD, "scq": pair.cq, "rcq": pair.cq, "cap": QPCap()}
    attr = QPAttr(port_num=1)
    attr.qkey = 0x11111111
    if extended:
        init |= {"pd": pair.pd, "send_ops_flags": e.IBV_QP_EX_WITH_SEND,
                 "comp_mask": e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS}
        qp = QPEx(pair.context, QPInitAttrEx(**init))
        qp.to_rts(attr)
        qp.wr_start()
        qp.wr_id, qp.wr_flags = 1, e.IBV_SEND_SIGNALED
        qp.wr_send()
        qp.wr_set_ud_addr(ah, qp.qp_num, attr.qkey)
        qp.wr_set_sge(SGE(pair.mr.buf, 64, pair.mr.lkey))
        qp.wr_complete()
    else:
        qp = QP(pair.pd, QPInitAttr(**init))
        qp.to_rts(attr)
        wr = SendWR(wr_id=1, opcode=e.IBV_WR_SEND, num_sge=1, send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(pair.mr.buf, 64, pair.mr.lkey)])
        wr.set_wr_ud(ah, qp.qp_num, attr.qkey)
        qp.post_send(wr)
    pair.poll(1)


def other_pd_extended(good):
    other_pd(good, extended=True)


def forked(good):
    """A child posts, and makes its own pair if it should be."""
    pair = Pair()
    child = os.fork()
    if not child:
        mine = Pair() if good else pair
        mine.send(1, WRITE)
        mine.poll(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def forked_poll(good):
    pair = Pair()
    pair.send(1, WRITE)
    child = os.fork()
    if not child:
        if not good:
            pair.poll(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    pair.poll(1)


def memlock(good):
    """More than the limit is registered at once; without the right to exceed it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    data[0] &= ~(1 << 14)  # CAP_IPC_LOCK, of those that count
    assert libc.capset(header, data) == 0
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    pair = Pair()
    for _ in range(4):
        mr = MR(pair.pd, 32768, ACCESS)
        if good:
            mr.close()
        else:
            pair.mrs = [*getattr(pair, "mrs", []), mr]


def no_fence(good):
    """What a read brings is sent on, as soon as the read was posted."""
    pair = Pair()
    pair.mr = MR(pair.pd, 4096, ACCESS | e.IBV_ACCESS_REMOTE_READ)
    pair.send(7, e.IBV_WR_RDMA_READ, offset=64)
    pair.send(8, WRITE, offset=256, to=512)  # other bytes
    flags = e.IBV_SEND_SIGNALED | (e.IBV_SEND_FENCE if good else 0)
    pair.send(9, WRITE, offset=120, to=512, flags=flags)
    pair.poll(3)
    pair.send(10, WRITE, offset=120, to=512)
    pair.poll(1)


def early_inline(good, extended=False):
    """Inline data are copied when they are posted: no fence helps."""
    pair = Pair()
    pair.mr = MR(pair.pd, 4096, ACCESS | e.IBV_ACCESS_REMOTE_READ)
    if extended:
        init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=pair.cq, rcq=pair.cq, pd=pair.pd, sq_sig_all=1,
                            cap=QPCap(max_send_wr=8, max_inline_data=64),
                            send_ops_flags=e.IBV_QP_EX_WITH_RDMA_READ | e.IBV_QP_EX_WITH_RDMA_WRITE,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        pair.qp = QPEx(pair.context, init)
    else:
        pair.qp = QP(pair.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=pair.cq, rcq=pair.cq, sq_sig_all=1,
                                         cap=QPCap(max_send_wr=8, max_inline_data=64)))
    pair.peer = pair.make()
    pair.connect(pair.qp, pair.peer)
    pair.connect(pair.peer, pair.qp)
    pair.send(7, e.IBV_WR_RDMA_READ, offset=64)
    pair.send(8, WRITE, offset=256, to=512, flags=e.IBV_SEND_INLINE)  # other bytes
    if good:
        pair.poll(2)
    if extended:
        pair.qp.wr_start()
        pair.qp.wr_id, pair.qp.wr_flags = 9, e.IBV_SEND_FENCE
        pair.qp.wr_rdma_write(pair.mr.rkey, pair.mr.buf + 512)
        pair.qp.wr_set_inline_data_list(1, [DataBuffer(pair.mr.buf + 120, 8)])
        pair.qp.wr_complete()
    else:
        pair.send(9, WRITE, offset=120, length=8, to=512, flags=e.IBV_SEND_INLINE | e.IBV_SEND_FENCE)
    pair.poll(1 if good else 3)


def early_inline_extended(good):
    early_inline(good, extended=True)


def overwritten(good):
    """Both receives have the same buffer, which is all right as long as one is used at a time."""
    pair = Pair()
    pair.receive(2)
    for i in range(2):
        pair.mr.write(bytes([i + 1] * 64), 64, 64 + 64 * i)
        pair.send(i, e.IBV_WR_SEND, offset=64 + 64 * i)
        while pair.mr.read(64, 0) != bytes([i + 1] * 64):
            pass
        if good:
            pair.poll(2)
    pair.poll(0 if good else 4)


def requests_of_mr_by_address(good):
    requests_of_mr(good, 0x7f0012345678)


def changed_by_address(good):
    changed(good, 0x7f0012345678)


def changed(good, wr_id=7):
    pair = Pair()
    pair.receive(1)
    pair.send(wr_id, e.IBV_WR_SEND, offset=64)
    if good:
        pair.poll(2)
    pair.mr.write(bytes([1] * 8), 8, 120)
    if not good:
        pair.poll(2)


def by_a_receive(_):
    """A buffer that is sent and received into: the device has changed it."""
    pair = Pair()
    pair.receive(1)  # to offset 0
    pair.mr.write(bytes([1] * 64), 64, 64)
    pair.send(1, WRITE, to=512)
    pair.send(2, e.IBV_WR_SEND, offset=64)
    pair.poll(3)
    assert pair.mr.read(64, 0) == bytes([1] * 64)


def by_a_write(_):
    """A buffer that is sent, and that a peer writes to."""
    pair = Pair()
    pair.mr.write(bytes([1] * 64), 64, 64)
    pair.send(1, WRITE, offset=128, to=512)
    pair.send(2, WRITE, offset=64, to=128)
    pair.poll(2)
    assert pair.mr.read(64, 128) == bytes([1] * 64)


def after_an_answer(_):
    """The message has come, as its receive tells: the buffer is used again, unsignaled as it was sent."""
    pair = Pair(sig_all=0)
    pair.receive(2)
    for i in range(2):
        pair.mr.write(bytes([i + 1] * 64), 64, 64)
        pair.send(i, e.IBV_WR_SEND, offset=64, flags=e.IBV_SEND_SIGNALED if i else 0)
        pair.poll(1 + i)


def memory_that_leaves(how, good):
    """It is registered, and then other memory is at its address, which is written to the peer."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
    size, rights, private, fixed = ctypes.c_size_t(8192), 3, 0x22, 0x10

    def new(at=None, flags=0):
        return libc.mmap(ctypes.c_void_p(at), size, rights, private | flags, -1, ctypes.c_long(0))

    pair = Pair()
    at = new()
    ctypes.memset(at, 1, 8192)
    mr = MR(pair.pd, 8192, ACCESS, address=at)
    if good:
        mr.close()
    if how == "munmap":
        assert libc.munmap(ctypes.c_void_p(at), size) == 0
        new(at, fixed)
    elif how == "mremap":
        assert libc.mremap(ctypes.c_void_p(at), size, size, 3, ctypes.c_void_p(new())) != at
        new(at, fixed)
    else:
        assert libc.madvise(ctypes.c_void_p(at + 4096), ctypes.c_size_t(4096), 4) == 0
    if good:
        mr = MR(pair.pd, 8192, ACCESS, address=at)
    for offset in (0, 4096):  # by madvise, the second page alone has left
        wr = SendWR(wr_id=1, opcode=WRITE, num_sge=1, send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(at + offset, 64, mr.lkey)])
        wr.set_wr_rdma(pair.mr.rkey, pair.mr.buf)
        pair.qp.post_send(wr)
        pair.poll(1)
    mr.close()


def munmap(good):
    memory_that_leaves("munmap", good)


def mremap(good):
    memory_that_leaves("mremap", good)


def file_mapping(good, directory="/var/tmp", access=ACCESS, flags=mmap.MAP_SHARED):
    """Pages of a file, which the kernel writes back when it is told that they have changed."""
    pair = Pair()
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.truncate(8192)
        memory = mmap.mmap(-1 if good else file.fileno(), 8192, flags)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        MR(pair.pd, 8192, access, address=address).close()


def empty_region(good, offset=0):
    pair = Pair()
    memory = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    MR(pair.pd, 1 if good else 0, ACCESS, address=address + offset).close()


def empty_region_inside_a_page(good):
    empty_region(good, offset=64)


def file_mapping_tmpfs(good):
    file_mapping(good, directory="/dev/shm")


def file_mapping_only_read(good):
    file_mapping(good, access=e.IBV_ACCESS_REMOTE_READ)


def file_mapping_private(good):
    file_mapping(good, flags=mmap.MAP_PRIVATE)


def file_mapping_on_demand(good):
    file_mapping(good, access=ACCESS | e.IBV_ACCESS_ON_DEMAND)


def stale_memory(good):
    memory_that_leaves("madvise", good)


def filled_meanwhile(length, address, then):
    """
    Calls `then` while another thread fills the memory: by calls that take longer than `then`, which may hold the
    interpreter's lock.
    """
    memory = (ctypes.c_char * length).from_address(address)
    filled, done = threading.Event(), threading.Event()

    def fill():
        with open("/dev/urandom", "rb", buffering=0) as noise:
            noise.readinto(memory)
            filled.set()
            while not done.is_set():
                os.readv(noise.fileno(), [memory] * 8)
    thread = threading.Thread(target=fill)
    thread.start()
    filled.wait()
    try:
        return then()
    finally:
        done.set()
        thread.join()


def moved_in_use(good, first=0):
    """Of the memory, the first bytes are left out."""
    pair = Pair()
    length = 24 << 20
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if good:
        filled_meanwhile(length, address, lambda: None)
        mr = MR(pair.pd, length - first, ACCESS, address=address + first)
    else:
        mr = filled_meanwhile(length, address, lambda: MR(pair.pd, length - first, ACCESS, address=address + first))
    mr.close()


def moved_in_use_not_whole_pages(good):
    moved_in_use(good, first=64)


def moved_in_use_back(good):
    """Likewise, while it is moved back."""
    pair = Pair()
    length = 24 << 20
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mr = MR(pair.pd, length, ACCESS, address=address)
    filled_meanwhile(length, address, (lambda: None) if good else mr.close)


def moved_and_gone(good, how="munmap"):
    pair = Pair()
    libc = ctypes.CDLL(None)
    memory = mmap.mmap(-1, 8 * 4096, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mr = MR(pair.pd, 8 * 4096, ACCESS, address=address)
    if good:
        mr.close()
    if how == "munmap":
        assert libc.munmap(ctypes.c_void_p(address + 4096), ctypes.c_size_t(2 * 4096)) == 0
    else:
        libc.mmap.restype = ctypes.c_void_p
        assert libc.mmap(ctypes.c_void_p(address + 4096), ctypes.c_size_t(2 * 4096), 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10,
                         -1, ctypes.c_long(0)) == address + 4096
    if not good:
        mr.close()
    os._exit(0)  # Python would unmap all of it


def moved_and_replaced(good):
    moved_and_gone(good, "mmap")


def unused_after(good):
    """What has left its memory, and is not used after that, is nobody's mistake yet."""
    pair = Pair()
    memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE)
    mr = MR(pair.pd, 4096, ACCESS, address=ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    memory.madvise(mmap.MADV_DONTNEED)
    pair.send(1, WRITE)
    pair.poll(1)
    mr.close()


def failure(good):
    """What it has at its end, and has not used, is not worth a word if it fails."""
    pair = Pair()
    unused = MR(pair.pd, 4096, ACCESS)
    pair.send(1, WRITE, rkey=None if good else pair.mr.rkey + 1)
    pair.poll(1)
    sys.stdout.flush()
    os._exit(unused.lkey == 0)


def unused_access(good):
    pair = Pair()
    mr = MR(pair.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ)
    pair.send(1, WRITE)  # of another region
    pair.poll(1)
    if good:
        pair.mr = mr
        pair.send(2, e.IBV_WR_RDMA_READ)
        pair.poll(1)


def no_sge(good):
    pair = Pair()
    pair.receive(1)
    wr = SendWR(wr_id=7, opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(pair.mr.buf, 8, pair.mr.lkey)])
    wr.num_sge = int(good)
    pair.qp.post_send(wr)
    pair.poll(2)


def srq_limit(good, closes=True):
    pair = Pair()
    srq = SRQ(pair.pd, SrqInitAttr(SrqAttr(max_wr=10, srq_limit=3)))
    if good:
        srq.modify(SrqAttr(srq_limit=3), e.IBV_SRQ_LIMIT)
    if closes:
        srq.close()
    sys.stdout.flush()
    os._exit(0)


def srq_limit_kept(good):
    """It is there when the program ends."""
    srq_limit(good, closes=False)


def unknown_access(good):
    pair = Pair()
    qp = pair.make()
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS | (0 if good else 1 << 30)
    qp.to_init(attr)
    qp.close()


def path_mtu(good):
    Pair(path_mtu=e.IBV_MTU_1024)
    pair = Pair(path_mtu=e.IBV_MTU_4096, asks_port=good)
    pair.send(1, WRITE)
    pair.poll(1)


def unused_qp(good):
    pair = Pair()
    if good:
        pair.send(1, WRITE)
        pair.poll(1)


def not_destroyed(good):
    pair = Pair()
    if good:
        pair.context.close()
    sys.stdout.flush()
    os._exit(0)


globals()[sys.argv[1]](len(sys.argv) > 2)
