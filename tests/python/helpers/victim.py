# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A process to be killed. It tells its QPN, rkey and address, and then behaves as asked."""
import os
import struct
import sys
import time

from pyverbs.addr import AH
from pyverbs.cq import CQ
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from harness import PD, WRITE, Device, Region, Side

mode = sys.argv[1]


def say(data):
    os.write(1, data)


def churn():
    device = Device()
    say(b'r')
    while True:
        pd = PD(device.ctx)
        side = Side(device=device, pd=pd)
        side.start(side)
        AH(pd, attr=device.address()).close()
        side.close()
        pd.close()


def leave():
    side = Side()
    side.start(side)
    for _ in range(10):
        side.recv()
        side.send(WRITE, side.region.sge(0, 100), to=side.region.at())
    os._exit(0)


if mode == 'churn':
    churn()
if mode == 'leave':
    leave()

one = Side()
say(struct.pack('=IIQ', one.qp.qp_num, one.region.rkey, one.region.addr))
peer, rkey, address = struct.unpack('=IIQ', os.read(0, 16))
one.to_init()
for _ in range(32):
    one.recv()
one.to_rtr(one, dest_qp_num=peer)
one.to_rts()

hoard = []
if mode == 'hoard':
    for _ in range(50):
        hoard += [PD(one.ctx), CQ(one.ctx, 10), Region(one.pd, 4096),
                  AH(one.pd, attr=one.device.address()),
                  SRQ(one.pd, SrqInitAttr(SrqAttr(max_wr=10)))]
    hoard.append(Device())
say(b'r')
while True:
    if mode == 'active':
        one.send(WRITE, one.region.sge(0, 60000), to=(address, rkey))
        while not one.scq.poll(1)[0]:
            pass
    else:
        time.sleep(1)
