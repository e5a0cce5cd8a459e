# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Protection domains, and what is refused as long as an object is in use."""
import errno

from pyverbs.pd import PD

from harness import Device, refused
from programs import private_python, run_c


def test_alloc_and_dealloc(ctx):
    """PDs come and go; handles of live ones differ."""
    pds = [PD(ctx) for _ in range(100)]
    assert len({pd.handle for pd in pds}) == 100
    for pd in pds:
        pd.close()
    PD(ctx).close()


def test_busy(c_program):
    """A PD with a region, AH, SRQ or QP, an SRQ or CQ with a QP: EBUSY, and nothing changes."""
    run_c(c_program('busy.c'))


def test_limit():
    """The device's limit of PDs counts those of all contexts; one that goes makes room."""
    private_python('pd_limit.py', options=('--daemon-option', 'max-pd=10'))


def test_closing_the_context_frees(keep):
    """What a context has at its end goes with it."""
    for _ in range(3):
        device = Device()
        for _ in range(10):
            PD(device.ctx)
        device.close()
    other = keep(Device())
    PD(other.ctx).close()
    with refused(errno.EINVAL):
        other.ctx.query_port(9)
