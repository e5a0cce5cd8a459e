# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""On a device with 64 KiB of on-chip memory: who gets how much of it."""
import errno

from pyverbs.device import DM, AllocDmAttr

from harness import Device, refused

one, two = Device(), Device()
assert one.ctx.query_device_ex().max_dm_size == 65536
kept = [DM(one.ctx, AllocDmAttr(length=4096)) for _ in range(15)]
with refused(errno.EINVAL):
    DM(two.ctx, AllocDmAttr(length=65537))
with refused(errno.ENOMEM):
    DM(two.ctx, AllocDmAttr(length=4097))
last = DM(two.ctx, AllocDmAttr(length=4096))
with refused(errno.ENOMEM):
    DM(two.ctx, AllocDmAttr(length=1))
kept.pop().close()
kept.append(DM(two.ctx, AllocDmAttr(length=1)))
for piece in kept:
    piece.close()
last.close()
DM(two.ctx, AllocDmAttr(length=65536)).close()
