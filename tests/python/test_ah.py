# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Address handles: which addresses are accepted."""
import errno

import pytest
from pyverbs.addr import GID, AH, AHAttr, GlobalRoute

from harness import PORT, refused

pytestmark = pytest.mark.addresses


def test_create(pd, open_device, ethernet):
    """With a GRH everywhere; with a LID alone on InfiniBand only."""
    AH(pd, attr=open_device.address(grh=True)).close()
    if ethernet:
        with refused(errno.EINVAL):
            AH(pd, attr=AHAttr(port_num=PORT))
    else:
        AH(pd, attr=AHAttr(dlid=open_device.port.lid, port_num=PORT)).close()


def test_many(pd, open_device):
    """AHs are cheap: a thousand at once."""
    for handle in [AH(pd, attr=open_device.address()) for _ in range(1000)]:
        handle.close()


@pytest.mark.parametrize('index, error', [(7, errno.ENODATA), (8, errno.EINVAL), (255, errno.EINVAL)])
def test_bad_sgid_index(pd, open_device, index, error):
    """An empty entry of the GID table, and one past its end, are no source address."""
    attr = open_device.address(grh=True)
    attr.sgid_index = index
    with refused(error):
        AH(pd, attr=attr)


def test_empty_dgid(pd, open_device):
    """A GID that was never exchanged is nobody's, with a LID or without."""
    attr = AHAttr(gr=GlobalRoute(dgid=GID(':'.join(['0000'] * 8)), sgid_index=0), is_global=1, port_num=PORT,
                  dlid=open_device.port.lid)
    with refused(errno.EINVAL):
        AH(pd, attr=attr)


@pytest.mark.parametrize('port', [0, 2])
def test_bad_port(pd, open_device, port):
    """There is only port 1."""
    attr = open_device.address()
    attr.port_num = port
    with refused(errno.EINVAL):
        AH(pd, attr=attr)


def test_every_gid(pd, open_device):
    """Each entry that the GID table has will do."""
    for entry in open_device.ctx.query_gid_table(8):
        AH(pd, attr=open_device.address(grh=True, gid_index=entry.gid_index)).close()
