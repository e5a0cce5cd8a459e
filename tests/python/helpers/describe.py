# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Prints what every device reports, as JSON."""
import json

from pyverbs.device import Context, get_device_list

said = []
for entry in sorted(get_device_list(), key=lambda device: device.name):
    ctx = Context(name=entry.name.decode())
    attr, port = ctx.query_device(), ctx.query_port(1)
    said.append({
        'name': ctx.name, 'node_guid': attr.node_guid, 'max_qp': attr.max_qp,
        'max_sge': attr.max_sge, 'active_mtu': port.active_mtu, 'lid': port.lid,
        'link_layer': port.link_layer,
    })
    ctx.close()
print(json.dumps(said))
