# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A reference model of keys: what a device does with regions, windows, fast-register regions and
invalidation, one work request at a time, in the words of the InfiniBand specification (vol. 1,
10.6, 9.7) and of Documentation/architecture.md. It knows nothing of locks, rings and engines.

Each method that stands for a verb returns the errno that the verb returns. Work requests take
effect when they are posted; their completions, events and changed bytes wait in lists until they
are compared with the device's. test_memory_model.py does that.
"""
import errno
from typing import NamedTuple

import verbs_enums as e

PAGE = 4096
TOP = 1 << 64

LOCAL_WRITE, REMOTE_WRITE = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_REMOTE_WRITE
REMOTE_READ, REMOTE_ATOMIC = e.IBV_ACCESS_REMOTE_READ, e.IBV_ACCESS_REMOTE_ATOMIC
MW_BIND, ZERO_BASED = e.IBV_ACCESS_MW_BIND, e.IBV_ACCESS_ZERO_BASED
RIGHTS = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC
REMOTE_CHANGE = REMOTE_WRITE | REMOTE_ATOMIC
RIGHT_NAMES = ((LOCAL_WRITE, 'LOCAL_WRITE'), (REMOTE_WRITE, 'REMOTE_WRITE'),
               (REMOTE_READ, 'REMOTE_READ'), (REMOTE_ATOMIC, 'REMOTE_ATOMIC'))

SEND, SEND_INV, WRITE, READ = (e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_INV, e.IBV_WR_RDMA_WRITE,
                               e.IBV_WR_RDMA_READ)
CMP_SWP, FETCH_ADD = e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD
BIND_2, LOCAL_INV = e.IBV_WR_BIND_MW, e.IBV_WR_LOCAL_INV
BIND_1, FAST_REG, READ_INV, RECV = 100, 101, 102, 103  # as in tests/programs/memory_verbs.c
ATOMICS = (CMP_SWP, FETCH_ADD)
RELIABLE_ONLY = (READ, READ_INV, *ATOMICS)
RIGHT_OF = {WRITE: REMOTE_WRITE, READ: REMOTE_READ, READ_INV: REMOTE_READ,
            CMP_SWP: REMOTE_ATOMIC, FETCH_ADD: REMOTE_ATOMIC}
OPCODE = {SEND: e.IBV_WC_SEND, SEND_INV: e.IBV_WC_SEND, WRITE: e.IBV_WC_RDMA_WRITE,
          READ: e.IBV_WC_RDMA_READ, READ_INV: e.IBV_WC_RDMA_READ, CMP_SWP: e.IBV_WC_COMP_SWAP,
          FETCH_ADD: e.IBV_WC_FETCH_ADD, BIND_1: e.IBV_WC_BIND_MW, BIND_2: e.IBV_WC_BIND_MW,
          LOCAL_INV: e.IBV_WC_LOCAL_INV, FAST_REG: 135}  # IBV_WC_DRIVER1

SUCCESS, FLUSH, BIND_ERR = e.IBV_WC_SUCCESS, e.IBV_WC_WR_FLUSH_ERR, e.IBV_WC_MW_BIND_ERR
LOC_LEN, LOC_PROT, LOC_ACCESS = (e.IBV_WC_LOC_LEN_ERR, e.IBV_WC_LOC_PROT_ERR,
                                 e.IBV_WC_LOC_ACCESS_ERR)
REM_INV, REM_ACCESS, REM_OP = (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_REM_ACCESS_ERR,
                               e.IBV_WC_REM_OP_ERR)
RETRY, RNR_RETRY = e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_RNR_RETRY_EXC_ERR
EVENT_OF = {REM_ACCESS: e.IBV_EVENT_QP_ACCESS_ERR, REM_INV: e.IBV_EVENT_QP_REQ_ERR}


class Completion(NamedTuple):
    """opcode, length and key are None where the specification leaves them open."""
    wr_id: int
    status: int
    reason: str
    opcode: int = None
    length: int = None  # of a receive
    key: int = None     # that was invalidated, if the receive says so


class Denied(Exception):
    """An access or a memory management operation is refused, for this reason."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


class Refused(Exception):
    """A responder refuses a request: the status at either end; at its own, None is no receive."""

    def __init__(self, status, reason, receive=None):
        super().__init__(reason)
        self.status, self.reason, self.receive = status, reason, receive


class Fault(Exception):
    """A page is not there, or not with this access, while bytes are moved."""


# --------------------------------------------------------------------------------- memory

class Memory:
    """Bytes of one address range; holes cannot be reached, read-only pages not be written."""

    def __init__(self, start, length, holes=(), read_only=()):
        self.start, self.end = start, start + length
        self.bytes = bytearray(length)
        self.holes, self.read_only = set(holes), set(read_only)

    def pages(self, address, length):
        first, last = address - self.start, address - self.start + length - 1
        return range(first // PAGE, last // PAGE + 1)

    def check(self, address, length, write):
        for page in self.pages(address, length):
            if page in self.holes or write and page in self.read_only:
                raise Fault

    def is_mapped(self, address, length, write):
        """Whether registration finds the range to be there."""
        if not length:
            return True
        if address < self.start or address + length > self.end:
            return False
        try:
            self.check(address, length, write)
        except Fault:
            return False
        return True

    def read(self, address, length):
        return bytes(self.bytes[address - self.start:address - self.start + length])

    def write(self, address, data):
        self.bytes[address - self.start:address - self.start + len(data)] = data


# ---------------------------------------------------------------------------------- objects

class Entry:
    """One entry of the protection table: a region or a window."""

    def __init__(self, kind, pd):
        self.kind = kind  # 'region', 'null', 'fast', 'type 1', 'type 2'
        self.pd = pd
        self.key = None       # as the device knows it
        self.user_key = None  # as the program's object has it
        self.valid = kind in ('region', 'null')
        self.access = self.start = self.length = 0
        self.address = 0      # of a region: its first byte in memory
        self.pages = []       # of a fast-register region, with first_byte and page_size
        self.first_byte = self.page_size = 0
        self.max_pages = 0
        self.bound = set()    # of a region: the windows bound to it
        self.region = None    # of a window
        self.offset = 0       # of a window: from the region's first byte
        self.qp = None        # of a type 2 window: the QP that bound it

    @property
    def is_window(self):
        return self.kind.startswith('type')

    def pieces(self, offset, length):
        """Where these bytes lie: (address, length), the address None where there are none."""
        if self.is_window:
            return self.region.pieces(self.offset + offset, length)
        if self.kind == 'null':
            return [(None, length)]
        if self.kind == 'region':
            return [(self.address + offset, length)]
        found, offset = [], offset + self.first_byte
        while length:
            page, inside = divmod(offset, self.page_size)
            part = min(self.page_size - inside, length)
            found.append((self.pages[page] + inside, part))
            offset, length = offset + part, length - part
        return found


class Qp:
    def __init__(self, number, pd, reliable):
        self.number, self.pd, self.reliable = number, pd, reliable
        self.state = 'RESET'  # RTS, SQE, ERR
        self.access = 0
        self.receives = []


# ------------------------------------------------------------------------------------ model

class Model:
    def __init__(self, memories, type_2a=False):
        self.memories = memories
        self.type_2a = type_2a
        self.table = {}  # by key index
        self.pds, self.regions, self.windows, self.lists, self.qps = {}, {}, {}, {}, {}
        self.completions, self.events = [], []
        self.maybe = []  # (address, bytes) that may be there now, or what was there before
        self.lists_posted = set()

    # -- protection domains

    def alloc_pd(self, pd):
        self.pds[pd] = True
        return 0

    def dealloc_pd(self, pd):
        users = [*self.regions.values(), *self.windows.values(), *self.qps.values()]
        if any(user.pd == pd and getattr(user, 'kind', None) != 'null' for user in users):
            return errno.EBUSY
        for region in self.regions.values():
            if region.pd == pd:  # a null MR, which stays, and is of no other
                region.pd = None
        del self.pds[pd]
        return 0

    # -- regions

    def _memory_of(self, address):
        for memory in self.memories:
            if memory.start <= address < memory.end:
                return memory
        return None

    def _check_registration(self, address, length, start, access):
        if access & ~(RIGHTS | MW_BIND | ZERO_BASED):
            return errno.EINVAL
        if access & REMOTE_CHANGE and not access & LOCAL_WRITE:
            return errno.EINVAL
        if length and (address + length >= TOP or start + length > TOP):
            return errno.EINVAL
        memory = self._memory_of(address)
        if length and (not memory or not memory.is_mapped(address, length, access & (LOCAL_WRITE | MW_BIND))):
            return errno.EFAULT
        return 0

    def reg_mr(self, region, pd, address, length, start, access):
        if (address - start) % PAGE:
            return errno.EINVAL
        error = self._check_registration(address, length, start, access)
        if error:
            return error
        entry = self.regions[region] = Entry('region', pd)
        entry.access, entry.address, entry.length = access, address, length
        entry.start = 0 if access & ZERO_BASED else start
        return 0

    def alloc_null_mr(self, region, pd):
        entry = self.regions[region] = Entry('null', pd)
        entry.access, entry.length = LOCAL_WRITE, TOP - 1
        return 0

    def alloc_fast_mr(self, region, pd, pages):
        entry = self.regions[region] = Entry('fast', pd)
        entry.max_pages = pages
        return 0

    def created(self, entry, key):
        """The device chose this key for an object that was just made; False if it must not."""
        if not key >> 8 or key >> 8 in self.table:
            return False
        entry.key = entry.user_key = key
        self.table[key >> 8] = entry
        return True

    def rereg_mr(self, region, flags, pd, address, length, access):
        entry = self.regions[region]
        translation, change_pd, change_access = (flags & bit for bit in (1, 2, 4))
        # What libibverbs refuses by itself.
        if entry.kind != 'region' or not flags or flags & ~7:
            return errno.EINVAL
        if translation and not (address and length) or access and not change_access:
            return errno.EINVAL
        if not translation:
            address, length = entry.address, entry.length
        if not change_access:
            access = entry.access
        start = entry.start
        if translation:
            start = 0 if access & ZERO_BASED else address
        error = self._check_registration(address, length, start, access)
        if error:
            return error
        if entry.bound:
            return errno.EBUSY
        entry.access, entry.address, entry.length, entry.start = access, address, length, start
        if change_pd:
            entry.pd = pd
        return 0

    def dereg_mr(self, region):
        entry = self.regions[region]
        if entry.bound:
            return errno.EBUSY
        del self.table[entry.key >> 8], self.regions[region]
        return 0

    def update_key(self, region, variant):
        entry = self.regions[region]
        if entry.kind != 'fast':
            return errno.EINVAL
        entry.user_key = entry.user_key & ~0xff | variant
        return 0

    # -- windows

    def alloc_mw(self, window, pd, mw_type):
        self.windows[window] = Entry(f'type {mw_type}', pd)
        return 0

    def dealloc_mw(self, window):
        entry = self.windows.pop(window)
        self._unbind(entry)
        del self.table[entry.key >> 8]
        return 0

    @staticmethod
    def _unbind(window):
        if window.region:
            window.region.bound.discard(window)
        window.region = window.qp = None
        window.valid = False

    # -- page lists

    def alloc_list(self, number, pages):
        self.lists[number] = pages
        return 0

    def free_list(self, number):
        if number in self.lists_posted:
            return errno.EBUSY
        del self.lists[number]
        return 0

    # -- QPs. Numbers 2n and 2n + 1 belong together.

    def create_qp(self, qp, pd, reliable):
        self.qps[qp] = Qp(qp, pd if qp & 1 else 'asking', reliable)
        return 0

    def destroy_qp(self, qp):
        self._free_windows(qp)
        del self.qps[qp]
        return 0

    def reset_qp(self, qp):
        self._free_windows(qp)
        self.qps[qp].state, self.qps[qp].receives = 'RESET', []
        return 0

    def connect_qps(self, qp, access):
        for number, granted in ((qp, RIGHTS), (qp + 1, access)):
            self.qps[number].state, self.qps[number].access = 'RTS', granted
        return 0

    def _free_windows(self, qp):
        for window in self.windows.values():
            if window.kind == 'type 2' and window.qp == qp:
                self._unbind(window)

    def _fail_qp(self, qp, state='ERR'):
        if qp.state == 'ERR':
            return
        qp.state = state
        if state == 'ERR':
            for work in qp.receives:
                self.completions.append(Completion(work.wr_id, FLUSH, 'FLUSHED'))
            qp.receives = []

    # ------------------------------------------------------------------- the table's one check

    def _find(self, qp, key, remote):
        """The entry that this key names, if this QP may know it."""
        entry = self.table.get(key >> 8)
        if not entry:
            raise Denied('KEY_UNKNOWN')
        if entry.key != key:
            raise Denied('KEY_STALE')
        if entry.is_window and not remote:
            raise Denied('KEY_NOT_LOCAL')
        if entry.pd != qp.pd and not (self.type_2a and entry.kind == 'type 2'):
            raise Denied('KEY_WRONG_PD')
        return entry

    @staticmethod
    def _check_valid(qp, entry):
        if not entry.valid:
            raise Denied('MW_NOT_BOUND' if entry.is_window else 'MR_NOT_VALID')
        if entry.kind == 'type 2' and entry.qp != qp.number:
            raise Denied('MW_OTHER_QP')

    @staticmethod
    def _check_range(entry, address, length):
        if length and address + length > TOP:
            raise Denied('KEY_WRAPS')
        if address < entry.start:
            raise Denied('KEY_BELOW_START')
        if address + length > entry.start + entry.length:
            raise Denied('KEY_PAST_END')
        return address - entry.start

    def _translate(self, qp, key, address, length, right, remote):
        """Where [address, address + length) of a key lies. No bytes need no key."""
        if not length:
            return []
        entry = self._find(qp, key, remote)
        self._check_valid(qp, entry)
        offset = self._check_range(entry, address, length)
        for bit, name in RIGHT_NAMES:
            if right & bit and not entry.access & bit:
                raise Denied(('MW_NO_' if entry.is_window else 'MR_NO_') + name)
        return entry.pieces(offset, length)

    def _translate_sges(self, qp, sges, length, right):
        pieces = []
        for address, size, key in sges:
            part = min(size, length)
            pieces += self._translate(qp, key, address, part, right, False)
            length -= part
        return pieces

    def _may_invalidate(self, qp, key):
        entry = self._find(qp, key, True)
        if entry.kind in ('region', 'null', 'type 1'):
            raise Denied('INV_NOT_ALLOWED')
        self._check_valid(qp, entry)
        if entry.bound:
            raise Denied('INV_WINDOWS_BOUND')
        return entry

    def _invalidate(self, entry):
        if entry.is_window:
            self._unbind(entry)
        entry.valid = False

    # ---------------------------------------------------------------------------- moving bytes

    def _read(self, pieces):
        """The bytes; a Fault has those of the pieces before it."""
        data = b''
        for address, length in pieces:
            if address is None:
                data += bytes(length)
                continue
            memory = self._memory_of(address)
            try:
                memory.check(address, length, False)
            except Fault as fault:
                raise Fault(data) from fault
            data += memory.read(address, length)
        return data

    def _write(self, pieces, data, sure=True):
        """With sure False it is left open which of the bytes arrive."""
        at = 0
        for address, length in pieces:
            if address is not None and sure:
                self._memory_of(address).write(address, data[at:at + length])
            elif address is not None and self._can_write(address, length):
                self.maybe.append((address, data[at:at + length]))
            at += length

    def _can_write(self, address, length):
        return self._memory_of(address).is_mapped(address, length, True)

    def _copy(self, target, source):
        """'source' or 'target' if a page is missing there; else None."""
        missing = None
        try:
            data = self._read(source)
        except Fault as fault:
            data, missing = fault.args[0], 'source'
        if not missing and not all(address is None or self._can_write(address, length)
                                   for address, length in target):
            missing = 'target'
        if not missing:
            self._write(target, data)
            return None
        # As on a wire, what comes before the fault may have arrived.
        for part in _by_page(target, data):
            self._write(*part, sure=False)
        return missing

    # --------------------------------------------------------------------------- work requests

    def post(self, work):
        qp = self.qps[work.qp]
        if work.opcode == BIND_1 and self._check_bind(qp, work):
            return self._check_bind(qp, work)  # a call of its own, which looks at objects first
        if qp.state == 'RESET':
            return errno.EINVAL
        if work.opcode == RECV:
            if qp.state == 'ERR':
                self.completions.append(Completion(work.wr_id, FLUSH, 'FLUSHED'))
            else:
                qp.receives.append(work)
            return 0
        error = self._check_post(qp, work)
        if error:
            return error
        if work.opcode == FAST_REG:
            self.lists_posted.add(work.page_list)
        if work.opcode == BIND_1:
            window = self.windows[work.window]
            work.key = window.user_key = window.user_key & ~0xff | window.user_key + 1 & 0xff
        if work.opcode == BIND_2:
            window = self.windows[work.window]
            window.user_key = window.user_key & ~0xff | work.key & 0xff
        if qp.state != 'RTS':
            self.completions.append(Completion(work.wr_id, FLUSH, 'FLUSHED'))
            return 0
        self._execute(qp, work)
        return 0

    def polled(self):
        """All completions were polled: what work requests lent to the device is back."""
        self.completions, self.events, self.maybe = [], [], []
        self.lists_posted = set()

    def _check_post(self, qp, work):
        """What is refused at once, and leaves no trace."""
        if work.opcode in RELIABLE_ONLY and not qp.reliable:
            return errno.EINVAL
        if work.opcode == BIND_2:
            return self._check_bind(qp, work)
        if work.opcode == FAST_REG:
            if not qp.number & 1:
                return errno.EINVAL  # the list is of the other context
            if not 0 < work.num_pages <= self.lists[work.page_list]:
                return errno.EINVAL
            if work.page_list in self.lists_posted:
                return errno.EBUSY
        return 0

    def _check_bind(self, qp, work):
        window, region = self.windows[work.window], self.regions[work.region]
        one = work.opcode == BIND_1
        if window.kind != ('type 1' if one else 'type 2'):
            return errno.EINVAL
        if one and window.pd != region.pd:
            return errno.EPERM  # libibverbs looks at this one first
        if work.access & ~(RIGHTS | ZERO_BASED):
            return errno.EINVAL
        if one and (work.access | (region.access if region.kind == 'region' else 0)) & ZERO_BASED:
            return errno.EINVAL
        if one and region.kind == 'null':
            return errno.ENOTSUP
        return 0

    def _complete(self, qp, work):
        self.completions.append(Completion(work.wr_id, SUCCESS, 'NONE', OPCODE[work.opcode]))

    def _fail(self, qp, work, status, reason):
        """At the requester: an unreliable QP stops only its send queue."""
        self.completions.append(Completion(work.wr_id, status, reason))
        self._fail_qp(qp, 'ERR' if qp.reliable else 'SQE')

    def _execute(self, qp, work):
        local = {BIND_1: self._bind, BIND_2: self._bind, FAST_REG: self._fast_reg,
                 LOCAL_INV: self._local_inv}.get(work.opcode)
        if not local:
            self._request(qp, work)
            return
        try:
            local(qp, work)
        except Denied as denied:
            self._fail(qp, work, BIND_ERR, denied.reason)
        else:
            self._complete(qp, work)

    # -- binding, registering, invalidating

    def _bind(self, qp, work):
        window, region = self.windows[work.window], self.regions[work.region]
        key = window.key & ~0xff | work.key & 0xff
        if window.pd != qp.pd:
            raise Denied('KEY_WRONG_PD')
        if window.kind == 'type 2' and not work.length:
            raise Denied('BIND_NO_LENGTH')
        if window.kind == 'type 2' and window.valid:
            raise Denied('BIND_NOT_FREE')
        if not work.length:
            self._unbind(window)
            window.key = key
            return
        if region.user_key != region.key:
            raise Denied('KEY_STALE')
        if region.pd != qp.pd:
            raise Denied('KEY_WRONG_PD')
        self._check_valid(qp, region)
        if not region.access & MW_BIND:
            raise Denied('MR_NO_MW_BIND')
        if work.access & REMOTE_CHANGE and not region.access & LOCAL_WRITE:
            raise Denied('BIND_NEEDS_LOCAL_WRITE')
        offset = self._check_range(region, work.address, work.length)
        self._unbind(window)
        window.key, window.valid, window.region, window.offset = key, True, region, offset
        window.access, window.length = work.access, work.length
        window.start = 0 if work.access & ZERO_BASED else work.address
        window.qp = qp.number if window.kind == 'type 2' else None
        region.bound.add(window)

    def _fast_reg(self, qp, work):
        region = self.table.get(work.key >> 8)
        if not region or region.kind != 'fast':
            raise Denied('FAST_REG_NO_REGION')
        if region.pd != qp.pd:
            raise Denied('KEY_WRONG_PD')
        if region.valid:
            raise Denied('FAST_REG_NOT_FREE')
        if work.num_pages > region.max_pages:
            raise Denied('FAST_REG_TOO_MANY_PAGES')
        if not 12 <= work.page_shift <= 21:
            raise Denied('FAST_REG_PAGE_SIZE')
        if (work.access & ~(RIGHTS | MW_BIND | ZERO_BASED)
                or work.access & REMOTE_CHANGE and not work.access & LOCAL_WRITE):
            raise Denied('FAST_REG_BAD_ACCESS')
        if work.length and work.address + work.length > TOP:
            raise Denied('KEY_WRAPS')
        page_size = 1 << work.page_shift
        if work.address % page_size + work.length > work.num_pages * page_size:
            raise Denied('FAST_REG_PAST_END')
        if any(page % page_size for page in work.pages):
            raise Denied('FAST_REG_UNALIGNED')
        region.valid, region.key, region.access = True, work.key, work.access
        region.start = 0 if work.access & ZERO_BASED else work.address
        region.length, region.pages, region.page_size = work.length, list(work.pages), page_size
        region.first_byte = work.address % page_size

    def _local_inv(self, qp, work):
        self._invalidate(self._may_invalidate(qp, work.invalidate))

    # -- operations with a peer

    def _request(self, qp, work):
        length = sum(size for _, size, _ in work.sges)
        own = None  # what a read with invalidate ends
        if work.opcode in ATOMICS and length != 8:
            self._fail(qp, work, LOC_LEN, 'ATOMIC_BAD_LENGTH')
            return
        try:
            if work.opcode == READ_INV:
                own = self._may_invalidate(qp, work.invalidate)
        except Denied as denied:
            self._fail(qp, work, BIND_ERR, denied.reason)
            return
        try:
            right = LOCAL_WRITE if work.opcode in RELIABLE_ONLY else 0
            local = self._translate_sges(qp, work.sges, length, right)
        except Denied as denied:
            self._fail(qp, work, LOC_PROT, denied.reason)
            return
        peer = self.qps.get(qp.number ^ 1)
        if not peer or peer.state not in ('RTS', 'SQE'):
            if qp.reliable:
                self._fail(qp, work, RETRY, 'NO_RESPONSE')
            else:
                self._complete(qp, work)
            return
        try:
            respond = {SEND: self._receive, SEND_INV: self._receive, WRITE: self._take_write,
                       CMP_SWP: self._atomic, FETCH_ADD: self._atomic}
            respond.get(work.opcode, self._give_read)(peer, work, local, length)
        except Refused as refused:
            self._refused(qp, peer, work, refused)
            return
        except Fault:  # at the requester's own end
            self._fail(qp, work, LOC_PROT, 'PAGE_NOT_MAPPED')
            return
        if own:
            self._invalidate(own)
        self._complete(qp, work)

    def _refused(self, qp, peer, work, refused):
        if refused.status == RNR_RETRY:  # the peer was not ready, and nothing happened to it
            if qp.reliable:
                self._fail(qp, work, RNR_RETRY, refused.reason)
            else:
                self._complete(qp, work)
            return
        if refused.status == RETRY:  # the peer has failed, and said nothing
            if qp.reliable:
                self._fail(qp, work, RETRY, refused.reason)
            else:
                self._complete(qp, work)
            return
        if refused.receive == LOC_LEN and not qp.reliable:
            pass  # dropped, and the receive is there for the next
        elif refused.receive is not None:
            receive = peer.receives.pop(0)
            self.completions.append(Completion(receive.wr_id, refused.receive, refused.reason))
            self._fail_qp(peer)
        elif qp.reliable:
            self.events.append((EVENT_OF[refused.status], peer.number))
            self._fail_qp(peer)
        if qp.reliable:
            self._fail(qp, work, refused.status, refused.reason)
        else:
            self._complete(qp, work)  # nobody tells an unreliable sender

    def _receive(self, peer, work, local, length):
        if not peer.receives:
            raise Refused(RNR_RETRY, 'PEER_NOT_READY')
        receive = peer.receives[0]
        if length > sum(size for _, size, _ in receive.sges):
            raise Refused(REM_INV, 'RECV_TOO_SHORT', LOC_LEN)
        try:
            target = self._translate_sges(peer, receive.sges, length, LOCAL_WRITE)
        except Denied as denied:
            raise Refused(REM_OP, denied.reason, LOC_PROT) from denied
        missing = self._copy(target, local)
        if missing == 'target':
            raise Refused(REM_OP, 'PAGE_NOT_MAPPED', LOC_PROT)
        if missing:
            raise Fault
        peer.receives.pop(0)
        invalidated = None
        if work.opcode == SEND_INV:  # what cannot be invalidated is the receiver's failure alone
            try:
                self._invalidate(self._may_invalidate(peer, work.invalidate))
                invalidated = work.invalidate
            except Denied as denied:
                self.completions.append(Completion(receive.wr_id, LOC_ACCESS, denied.reason))
                self._fail_qp(peer)
                raise Refused(RETRY, denied.reason) from denied
        self.completions.append(Completion(receive.wr_id, SUCCESS, 'NONE', e.IBV_WC_RECV, length,
                                           invalidated))

    def _remote(self, peer, work, length):
        """The memory that a one-sided operation names, if QP and key grant it."""
        right = RIGHT_OF[work.opcode]
        if not peer.access & right:
            raise Refused(REM_INV, 'QP_NO_' + dict(RIGHT_NAMES)[right])
        if work.opcode in ATOMICS and work.remote_address % 8:
            raise Refused(REM_INV, 'ATOMIC_UNALIGNED')
        try:
            return self._translate(peer, work.rkey, work.remote_address, length, right, True)
        except Denied as denied:
            raise Refused(REM_ACCESS, denied.reason) from denied

    def _take_write(self, peer, work, local, length):
        target = self._remote(peer, work, length)
        missing = self._copy(target, local)
        if missing == 'target':
            raise Refused(REM_ACCESS, 'PAGE_NOT_MAPPED')
        if missing:
            raise Fault

    def _give_read(self, peer, work, local, length):
        source = self._remote(peer, work, length)
        missing = self._copy(local, source)
        if missing == 'source':
            raise Refused(REM_ACCESS, 'PAGE_NOT_MAPPED')
        if missing:
            raise Fault

    def _atomic(self, peer, work, local, _length):
        target = self._remote(peer, work, 8)
        if len(target) != 1:  # its bytes lie in two pages, which need not be neighbours
            raise Refused(REM_INV, 'ATOMIC_UNALIGNED')
        try:
            old = int.from_bytes(self._read(target), 'little')
            if work.opcode == FETCH_ADD or old == work.compare_add:
                new = work.swap if work.opcode == CMP_SWP else (old + work.compare_add) % TOP
                if not all(self._can_write(*piece) for piece in target):
                    raise Fault
                self._write(target, new.to_bytes(8, 'little'))
        except Fault as fault:
            raise Refused(REM_ACCESS, 'PAGE_NOT_MAPPED') from fault
        self._write(local, old.to_bytes(8, 'little'))


def _by_page(pieces, data):
    """The same bytes in pieces that lie in one page each: ([(address, length)], bytes)."""
    at = 0
    for address, length in pieces:
        end = min(at + length, len(data))
        while at < end:
            part = end - at if address is None else min(PAGE - address % PAGE, end - at)
            yield [(address, part)], data[at:at + part]
            at += part
            address = None if address is None else address + part
