# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
wire_peer.py DEVICE GID_INDEX CASE PORT [SERVER]: two QPs of pyverbs, on whatever devices. The client
does what CASE says and prints a line for each completion; so does the server.
"""
import json
import random
import socket
import sys
import time

import verbs_enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

SIZE = 1 << 16
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
OPERATIONS = (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_INV |
              e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_READ |
              e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | e.IBV_QP_EX_WITH_BIND_MW)
# Of verbs that older libraries do not have: what a case needs.
MORE_OPERATIONS = {name: getattr(e, f"IBV_QP_EX_WITH_{what}", 0) for name, what in
                   (("atomic_write", "ATOMIC_WRITE"), ("misaligned_write", "ATOMIC_WRITE"),
                    ("flush", "FLUSH"), ("no_flush", "FLUSH"))}
FLUSH_GLOBAL = 1 << 8
GLOBAL, RANGE, REGION = 1, 0, 1
STATUS = {value: name[7:] for name, value in vars(e).items() if name.startswith("IBV_WC_")
          and name[7:] in ("SUCCESS", "REM_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_OP_ERR",
                           "RNR_RETRY_EXC_ERR", "RETRY_EXC_ERR", "WR_FLUSH_ERR")}


class Peer:
    def __init__(self, device, gid_index, case, access):
        self.context = Context(name=device)
        self.gid_index = gid_index
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND | access)
        self.qp = QPEx(self.context, QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, pd=self.pd, cap=QPCap(16, 16, 1, 1),
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            send_ops_flags=OPERATIONS | MORE_OPERATIONS.get(case, 0)))
        self.access = access
        self.window = None

    def tell(self):
        return {"qpn": self.qp.qp_num, "gid": str(self.context.query_gid(1, self.gid_index)),
                "addr": self.mr.buf, "rkey": self.window or self.mr.rkey}

    def connect(self, peer, rnr_retry, timeout=14, retry_cnt=3):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | REMOTE | self.access
        attr.dest_qp_num, attr.path_mtu = peer["qpn"], e.IBV_MTU_1024
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(peer["gid"]), sgid_index=self.gid_index,
                                             hop_limit=64), is_global=1, port_num=1)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.timeout, attr.retry_cnt = timeout, retry_cnt
        attr.rnr_retry, attr.min_rnr_timer = rnr_retry, 12
        self.qp.to_init(attr)
        self.qp.to_rtr(attr)
        self.qp.to_rts(attr)

    def receive(self, length, offset=0):
        sge = SGE(self.mr.buf + offset, length, self.mr.lkey)
        self.qp.post_recv(RecvWR(sg=[sge], num_sge=1))

    def post(self, how, length=0, offset=0):
        """how(qp) chooses the operation."""
        self.qp.wr_start()
        self.qp.wr_flags = e.IBV_SEND_SIGNALED
        how(self.qp)
        if length:
            self.qp.wr_set_sge(SGE(self.mr.buf + offset, length, self.mr.lkey))
        self.qp.wr_complete()

    def succeeds(self, what):
        completions = []
        end = time.monotonic() + 30
        while not completions and time.monotonic() < end:
            completions = self.cq.poll()[1]
            time.sleep(0.0002)
        assert completions, f"{what}: no completion"
        assert completions[0].status == e.IBV_WC_SUCCESS, f"{what}: {completions[0]}"

    def completion(self):
        """Its status in words; prints it."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            count, completions = self.cq.poll()
            if count:
                status = STATUS.get(completions[0].status, str(completions[0].status))
                print(status, flush=True)
                return status
            time.sleep(0.001)
        sys.exit("no completion")

    def bind_window(self):
        """The key of a window of type 2 over all of the region is what is told."""
        self.mw = MW(self.pd, e.IBV_MW_TYPE_2)
        key = (self.mw.rkey & ~0xff) | ((self.mw.rkey + 1) & 0xff)
        info = MWBindInfo(self.mr, self.mr.buf, SIZE, e.IBV_ACCESS_REMOTE_WRITE)
        self.post(lambda qp: qp.wr_bind_mw(self.mw, key, info))
        assert self.completion() == "SUCCESS"
        self.window = key


# Of "many": rounds, and where in the regions what lies.
ROUNDS = 30
MOST = 20000
BACK, COUNTER = MOST, 3 * MOST


def messages():
    """The same ones at both ends."""
    numbers = random.Random(ROUNDS)
    for _ in range(ROUNDS):
        yield numbers.randbytes(numbers.randrange(1, MOST))


def many(peer, there):
    """Writes, reads back, counts and sends: all of it arrives, once and in order."""
    rkey, addr = there["rkey"], there["addr"]
    for i, data in enumerate(messages()):
        peer.mr.write(data, len(data))
        peer.post(lambda qp: qp.wr_rdma_write(rkey, addr), len(data))
        peer.post(lambda qp: qp.wr_rdma_read(rkey, addr), len(data), offset=BACK)
        peer.post(lambda qp: qp.wr_atomic_fetch_add(rkey, addr + COUNTER, 1), 8, offset=COUNTER)
        peer.post(lambda qp: qp.wr_send(), len(data))
        for what in "write", "read", "atomic", "send":
            peer.succeeds(f"{what} {i}")
        assert peer.mr.read(len(data), BACK) == data, f"{i}: read back"
        assert peer.mr.read(8, COUNTER) == i.to_bytes(8, "little"), f"{i}: counted"
    print("SUCCESS")


def receive_many(peer):
    for i, data in enumerate(messages()):
        peer.receive(MOST, BACK)
        peer.succeeds(f"receive {i}")
        assert peer.mr.read(len(data), BACK) == data, f"{i}: received"


def client(peer, case, there):
    rkey, addr = there["rkey"], there["addr"]
    data = bytes(i * 7 % 251 for i in range(5000))
    peer.mr.write(data, len(data))

    def write(key=rkey, to=addr, length=len(data)):
        peer.post(lambda qp: qp.wr_rdma_write(key, to), length)
        peer.completion()

    if case == "many":
        many(peer, there)
    elif case in ("one_by_one", "from_far"):
        for _ in range(20):
            write()
    elif case == "all_good":
        write()
        peer.post(lambda qp: qp.wr_rdma_read(rkey, addr), len(data), offset=20000)
        peer.completion()
        assert peer.mr.read(len(data), 20000) == data, "read back"
        peer.post(lambda qp: qp.wr_atomic_fetch_add(rkey, addr + 40000, 5), 8, offset=40000)
        peer.completion()
        peer.post(lambda qp: qp.wr_send(), len(data))
        peer.completion()
    elif case == "wrong_key":
        write(key=rkey ^ 0x100)
    elif case == "outside":
        write(to=addr + SIZE - 100)
    elif case == "no_right":
        peer.post(lambda qp: qp.wr_rdma_read(rkey, addr), 100)
        peer.completion()
    elif case == "misaligned_atomic":
        peer.post(lambda qp: qp.wr_atomic_fetch_add(rkey, addr + 4, 1), 8)
        peer.completion()
    elif case == "atomic_write":
        for word in b"8 bytes.", b" as one.":
            peer.post(lambda qp: qp.wr_atomic_write(rkey, addr + 40000, word))
            peer.completion()
            peer.post(lambda qp: qp.wr_rdma_read(rkey, addr + 40000), 8, offset=20000)
            peer.completion()
            assert peer.mr.read(8, 20000) == word, "read back"
    elif case == "misaligned_write":
        peer.post(lambda qp: qp.wr_atomic_write(rkey, addr + 4, b"8 bytes."))
        peer.completion()
    elif case in ("flush", "no_flush"):
        write()
        for level in RANGE, REGION:
            peer.post(lambda qp: qp.wr_flush(rkey, addr, len(data), GLOBAL, level))
            if peer.completion() != "SUCCESS":
                break
    elif case == "invalidated":
        write()
        peer.post(lambda qp: qp.wr_send_inv(rkey), 100)
        peer.completion()
        write()
    else:  # too_long, no_receive, late_receive, nobody
        peer.post(lambda qp: qp.wr_send(), 3000)
        peer.completion()


def main():
    device, gid_index, case, port, *server = sys.argv[1:]
    rights = {"no_right": e.IBV_ACCESS_REMOTE_WRITE, "flush": REMOTE | FLUSH_GLOBAL}.get(case, REMOTE)
    peer = Peer(device, int(gid_index), case, rights)
    if server:
        channel = socket.create_connection((server[0], int(port)), timeout=60)
    else:
        with socket.create_server(("0.0.0.0", int(port))) as listener:
            listener.settimeout(60)
            channel = listener.accept()[0]
    channel.settimeout(60)
    lines = channel.makefile()

    def exchange(what):
        channel.sendall(json.dumps(what).encode() + b"\n")
        return json.loads(lines.readline())

    there = exchange(peer.tell())
    time_limit = {"many": {"timeout": 15, "retry_cnt": 7}, "one_by_one": {"timeout": 12}}.get(case, {})
    peer.connect(there, rnr_retry=2 if case == "no_receive" else 7, **time_limit)
    if not server:
        if case == "invalidated":
            peer.bind_window()
        if case in ("all_good", "invalidated", "too_long"):
            peer.receive(1000 if case == "too_long" else SIZE)
        if case == "nobody":
            peer.qp.close()
    there = exchange(peer.tell() if case != "nobody" else {})
    if server:
        client(peer, case, there or {"rkey": 0, "addr": 0})
    elif case == "late_receive":
        time.sleep(0.3)
        peer.receive(SIZE)
    if not server and case == "many":
        receive_many(peer)
    if not server and case in ("all_good", "late_receive", "invalidated"):
        peer.completion()
    exchange("done")


main()
