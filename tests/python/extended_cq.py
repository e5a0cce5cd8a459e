# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Extended CQs with every field that this device reports, and their completions."""
import errno
import time

import verbs_enums as e
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr

from harness import TIMEOUT

ENOENT = errno.ENOENT
ALL = (e.IBV_WC_EX_WITH_BYTE_LEN | e.IBV_WC_EX_WITH_IMM | e.IBV_WC_EX_WITH_QP_NUM
       | e.IBV_WC_EX_WITH_SRC_QP | e.IBV_WC_EX_WITH_SLID | e.IBV_WC_EX_WITH_SL
       | e.IBV_WC_EX_WITH_DLID_PATH_BITS | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
       | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | e.IBV_WC_EX_WITH_CVLAN
       | e.IBV_WC_EX_WITH_FLOW_TAG)
FIELDS = ('opcode', 'vendor_err', 'byte_len', 'imm_data', 'qp_num', 'src_qp', 'wc_flags', 'slid',
          'sl', 'dlid_path_bits', 'timestamp', 'completion_wallclock_ns', 'cvlan', 'flow_tag')


def make_cq(ctx, wc_flags=ALL, **options):
    return CQEX(ctx, CqInitAttrEx(**{'cqe': 100, 'wc_flags': wc_flags, **options}))


def take(cq, count=1):
    """The next count completions in one batch after the other: dictionaries of all fields."""
    found = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f'{len(found)} of {count} completions'
        result = cq.start_poll(PollCqAttr())
        while result == 0:
            entry = {field: getattr(cq, 'read_' + field)() for field in FIELDS}
            entry['wr_id'], entry['status'] = cq.wr_id, cq.status
            found.append(entry)
            if len(found) == count:
                break
            result = cq.poll_next()
        if found and result == 0 or result == ENOENT:
            cq.end_poll()
    return found
