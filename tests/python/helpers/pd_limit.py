# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Ten PDs are there, for two contexts together."""
import errno

from harness import PD, Device, refused

one, other = Device(), Device()
assert one.ctx.query_device().max_pd == 10
pds = [PD(one.ctx) for _ in range(6)] + [PD(other.ctx) for _ in range(4)]
for device in (one, other):
    with refused(errno.ENOMEM):
        PD(device.ctx)
pds.pop().close()
pds.append(PD(one.ctx))
with refused(errno.ENOMEM):
    PD(other.ctx)
one.close()
PD(other.ctx).close()
other.close()
