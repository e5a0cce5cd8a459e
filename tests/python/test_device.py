# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What the device says of itself: attributes and limits, port, GID and P_Key tables, clock."""
import errno
import ipaddress
import json
import os

import pytest
import verbs_enums as e
from pyverbs.device import get_device_list

from harness import PORT, Device, refused
from programs import private, private_python

pytestmark = pytest.mark.addresses
SOAK = os.environ.get('SIMHCA_SOAK') == '1'


def _gid_bytes(entry):
    return bytes.fromhex(entry.gid_str().replace(':', ''))


def test_list():
    """libibverbs finds one device, a channel adapter with the transport of InfiniBand."""
    devices = get_device_list()
    assert [device.name.decode() for device in devices] == ['simhca0']
    assert devices[0].node_type == 1
    assert devices[0].transport_type == 0
    assert devices[0].guid


def test_limits(ctx):
    """The limits that programs may rely on."""
    attr = ctx.query_device()
    for name in ('max_qp', 'max_cq', 'max_mr', 'max_pd', 'max_ah', 'max_srq'):
        assert getattr(attr, name) >= 1 << 16, name
    assert attr.max_qp_wr >= 16384
    assert attr.max_sge >= 30
    assert attr.max_sge_rd >= 30
    assert attr.max_srq_wr >= 16384
    assert attr.max_srq_sge >= 30
    assert attr.max_cqe >= 1 << 16
    assert attr.max_qp_rd_atom >= 16
    assert attr.max_qp_init_rd_atom >= 16
    assert attr.max_res_rd_atom >= attr.max_qp_rd_atom
    assert attr.max_mr_size >= 1 << 40
    assert attr.page_size_cap & 4096
    assert attr.max_mcast_grp and attr.max_mcast_qp_attach
    assert attr.max_pkeys == 1


def test_identity(ctx):
    """GUIDs and firmware version are set, and the library finds the same in sysfs."""
    attr = ctx.query_device()
    sysfs = f'/sys/class/infiniband/{ctx.name}'
    with open(f'{sysfs}/node_guid', encoding='ascii') as guid:
        assert int(guid.read().replace(':', ''), 16).to_bytes(8, 'big') == \
            attr.node_guid.to_bytes(8, 'little')
    with open(f'{sysfs}/fw_ver', encoding='ascii') as version:
        assert version.read().strip() == attr.fw_version.rstrip('\0')
    assert attr.node_guid and attr.sys_image_guid
    assert attr.vendor_id and attr.vendor_id not in (0x02c9, 0x8086, 0x1d0f)
    assert attr.atomic_caps == e.IBV_ATOMIC_HCA
    assert attr.phys_port_cnt == 1


def test_capabilities(ctx):
    """The optional features that this device has are announced."""
    flags = ctx.query_device().device_cap_flags
    for flag in (e.IBV_DEVICE_SRQ_RESIZE, e.IBV_DEVICE_RC_RNR_NAK_GEN,
                 e.IBV_DEVICE_SYS_IMAGE_GUID, e.IBV_DEVICE_CURR_QP_STATE_MOD):
        assert flags & flag, hex(flag)
    assert not flags & e.IBV_DEVICE_AUTO_PATH_MIG


def test_query_device_ex(ctx):
    """The extended query agrees with the plain one, and tells of the clock."""
    attr, extended = ctx.query_device(), ctx.query_device_ex()
    for name in ('node_guid', 'max_qp', 'max_qp_wr', 'max_sge', 'max_cqe', 'max_mr'):
        assert getattr(extended.orig_attr, name) == getattr(attr, name)
    assert extended.phys_port_cnt_ex == 1
    assert extended.device_cap_flags_ex & 0xffffffff == attr.device_cap_flags
    assert extended.hca_core_clock
    assert extended.completion_timestamp_mask


def test_raw_clock(ctx):
    """The device's clock goes forward."""
    first = ctx.query_rt_values_ex()
    second = ctx.query_rt_values_ex()
    assert second > first > (0, 0)


def test_port(ctx, ethernet):
    """Port 1 is up; LIDs are for InfiniBand, on Ethernet an address needs a GRH."""
    port = ctx.query_port(PORT)
    assert port.state == e.IBV_PORT_ACTIVE
    assert port.phys_state == 5
    assert port.max_mtu == e.IBV_MTU_4096
    assert port.active_mtu == e.IBV_MTU_4096
    assert port.max_msg_sz == 1 << 30
    assert port.gid_tbl_len == 8
    assert port.pkey_tbl_len == 1
    assert (port.lid == 0) == ethernet
    assert bool(port.flags & e.IBV_QPF_GRH_REQUIRED) == ethernet


@pytest.mark.parametrize('number', [0, 2, 255])
def test_no_such_port(ctx, number):
    """There is only port 1."""
    with refused(errno.EINVAL):
        ctx.query_port(number)


def test_pkey(ctx):
    """The P_Key table has one entry, the default key with full membership."""
    assert ctx.query_pkey(PORT, 0) == 0xffff
    with refused(-1):
        ctx.query_pkey(PORT, 1)


def test_gid_table(ctx, ethernet):
    """On Ethernet the GIDs are the interface's addresses, RoCE v2; else one made of the GUID."""
    entries = ctx.query_gid_table(8)
    kind = e.IBV_GID_TYPE_ROCE_V2 if ethernet else e.IBV_GID_TYPE_IB
    assert entries
    for entry in entries:
        assert entry.gid_type == kind
        assert entry.port_num == PORT
        assert bool(entry.ndev_ifindex) == ethernet
    if ethernet:
        assert ipaddress.IPv6Address('::ffff:127.0.0.1').packed in map(_gid_bytes, entries)
    else:
        assert len(entries) == 1
        assert _gid_bytes(entries[0])[:8] == bytes.fromhex('fe80000000000000')


def test_gid_entry(ctx):
    """A single entry is the table's; one that is empty, or past the end, is an error."""
    entries = ctx.query_gid_table(8)
    for entry in entries:
        single = ctx.query_gid_ex(PORT, entry.gid_index)
        assert single.gid_str() == entry.gid_str()
        assert ctx.query_gid(PORT, entry.gid_index).gid == entry.gid_str()
        assert ctx.query_gid_type(PORT, entry.gid_index) is not None
    free = next(index for index in range(8)
                if index not in {entry.gid_index for entry in entries})
    with refused(errno.ENODATA):
        ctx.query_gid_ex(PORT, free)
    with refused(errno.EINVAL):
        ctx.query_gid_ex(PORT, 8)
    with refused(errno.EINVAL):
        ctx.query_gid_ex(2, 0)
    with refused(-errno.EINVAL):
        ctx.query_gid_table(len(entries) - 1)


def test_options():
    """The daemon's options show in what the device reports."""
    said = json.loads(private_python('describe.py', options=(
        '--mtu', '1024', '--link-layer', 'ib', '--daemon-option', 'max-qp=100',
        '--daemon-option', 'max-sge=5', '--daemon-option', 'lid=77')))
    assert len(said) == 1
    assert said[0]['active_mtu'] == e.IBV_MTU_1024
    assert said[0]['link_layer'] == e.IBV_LINK_LAYER_INFINIBAND
    assert said[0]['lid'] == 77
    assert said[0]['max_qp'] == 100
    assert said[0]['max_sge'] == 5


def test_several_devices():
    """Devices of one daemon are different ones: names and GUIDs."""
    said = json.loads(private_python('describe.py', options=('--devices', '3')))
    assert [device['name'] for device in said] == ['simhca0', 'simhca1', 'simhca2']
    assert len({device['node_guid'] for device in said}) == 3


@pytest.mark.once
@pytest.mark.time_limit(240)
@pytest.mark.parametrize('kind', ['cq', 'mr', 'mw', 'qp', 'pd', 'srq', 'ah'])
def test_limits_can_be_reached(c_program, kind):
    """
    As many objects as the device reports can be made, not one more; and again after that. With
    SIMHCA_SOAK=1 as many as it reports by default, which takes a minute.
    """
    fewer = () if SOAK else ('--daemon-option', f'max-{kind}=200')
    done = private([c_program('limits.c'), kind], *fewer, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_open_twice(ctx, keep):
    """A device can be open many times; closing one context leaves the others alone."""
    others = [keep(Device()) for _ in range(20)]
    assert len({other.ctx.cmd_fd for other in others}) == 20
    for other in others:
        other.close()
    assert ctx.query_port(PORT).state == e.IBV_PORT_ACTIVE


def test_nothing_left_open():
    """Opening and closing leaves no descriptor behind."""
    Device().close()
    before = len(os.listdir('/proc/self/fd'))
    for _ in range(10):
        Device().close()
    assert len(os.listdir('/proc/self/fd')) == before
