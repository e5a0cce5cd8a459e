# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Random steps for memory_model.py: mostly what a program does, and now and then what it must not do,
wrong by as little as can be. Each step is (name of the verb, arguments), or ('batch', [Work, ..]).
"""
import random
from dataclasses import dataclass, field

from memory_model import (ATOMICS, BIND_1, BIND_2, CMP_SWP, FAST_REG, FETCH_ADD, LOCAL_INV,
                          LOCAL_WRITE, MW_BIND, PAGE, READ, READ_INV, RECV, REMOTE_ATOMIC,
                          REMOTE_READ, REMOTE_WRITE, RIGHT_OF, RIGHTS, SEND, SEND_INV, TOP, WRITE,
                          ZERO_BASED)

CONNECTIONS = 5
UNRELIABLE = (4,)  # connections
REGIONS, WINDOWS, LISTS, PDS = 12, 12, 4, 3
MAX_PAGES = 6
BATCH = 5
REMOTE = REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC


@dataclass
class Work:
    """A work request; numbers name the objects."""
    wr_id: int
    opcode: int
    qp: int
    sges: list = field(default_factory=list)  # (address, length, lkey)
    remote_address: int = 0
    rkey: int = 0
    invalidate: int = 0
    compare_add: int = 0
    swap: int = 0
    window: int = 0
    region: int = 0
    page_list: int = 0
    address: int = 0
    length: int = 0
    access: int = 0
    key: int = 0
    pages: list = field(default_factory=list)
    num_pages: int = 0
    page_shift: int = 12

    def __str__(self):
        """Without what this one leaves out."""
        said = [f'{name}={value:#x}' if isinstance(value, int) else f'{name}={value}'
                for name, value in vars(self).items()
                if value and name not in ('opcode', 'qp', 'wr_id')]
        return f'{NAMES[self.opcode]} on QP {self.qp}: {", ".join(said)}'


NAMES = {SEND: 'SEND', SEND_INV: 'SEND_WITH_INV', WRITE: 'WRITE', READ: 'READ',
         CMP_SWP: 'CMP_SWP', FETCH_ADD: 'FETCH_ADD', BIND_1: 'bind_mw', BIND_2: 'BIND_MW',
         LOCAL_INV: 'LOCAL_INV', FAST_REG: 'FAST_REG', READ_INV: 'READ_WITH_INV', RECV: 'RECV'}


class Steps:
    """Looks at the model to know what there is; never changes it."""

    def __init__(self, seed, model, arena, asking, asking_key):
        self.random = random.Random(seed)
        self.model, self.arena, self.asking, self.asking_key = model, arena, asking, asking_key
        self.wr_ids = [0] * (2 * CONNECTIONS)
        self.old_keys = [1 << 8]

    # -- dice

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, things):
        return things[int(self.random.random() * len(things))]

    def below(self, end):
        return int(self.random.random() * end)

    def slot(self, taken, count):
        """A number that is free, or None."""
        free = [number for number in range(count) if number not in taken]
        return self.pick(free) if free else None

    # -- a step

    def step(self):
        if self.chance(0.72):
            return self.batch()
        return self.pick(self.CONTROLS)(self)

    # -- commands

    def pd(self):
        return self.pick(list(self.model.pds))

    def access(self):
        rights = self.pick((RIGHTS, RIGHTS, self.below(16), RIGHTS & ~REMOTE_WRITE))
        if self.chance(0.9) and rights & (REMOTE_WRITE | REMOTE_ATOMIC):
            rights |= LOCAL_WRITE
        if self.chance(0.7):
            rights |= MW_BIND
        if self.chance(0.2):
            rights |= ZERO_BASED
        if self.chance(0.01):
            rights |= 1 << 15
        return rights

    def range_of_arena(self):
        """(address, length); now and then with a page that is not there, or past the end."""
        good = self.arena.length - 3 * PAGE
        start = self.below(good) & ~(7 if self.chance(0.7) else 0)
        length = 1 + self.below(min(good - start, 3 * PAGE))
        if self.chance(0.04):
            length += 3 * PAGE
        if self.chance(0.03):
            start, length = good + self.below(3 * PAGE), 1 + self.below(PAGE)
        if self.chance(0.02):
            length = 0
        if self.chance(0.01):
            length = TOP - PAGE
        return self.arena.start + start, length

    def reg_mr(self):
        region = self.slot(self.model.regions, REGIONS)
        if region is None:
            return self.dereg_mr()
        address, length = self.range_of_arena()
        start = address
        if self.chance(0.2):
            start = self.pick((0, 0x123456789000, TOP - length - PAGE, TOP - length))
            start += (address - start) % PAGE
        if self.chance(0.02):
            start += 1 + self.below(PAGE - 1)
        return 'reg_mr', (region, self.pd(), address, length, start % TOP, self.access())

    def alloc_null_mr(self):
        region = self.slot(self.model.regions, REGIONS)
        if region is None or not self.chance(0.3):
            return self.reg_mr()
        return 'alloc_null_mr', (region, self.pd())

    def alloc_fast_mr(self):
        region = self.slot(self.model.regions, REGIONS)
        if region is None:
            return self.dereg_mr()
        return 'alloc_fast_mr', (region, self.pd(), 1 + self.below(MAX_PAGES))

    def a_region(self, kind=None):
        found = [number for number, entry in self.model.regions.items()
                 if kind is None or entry.kind == kind]
        return self.pick(found) if found else None

    def a_window(self):
        return self.pick(list(self.model.windows)) if self.model.windows else None

    def rereg_mr(self):
        region = self.a_region()
        if region is None:
            return self.reg_mr()
        flags = self.pick((1, 2, 3, 4, 5, 6, 7, self.below(16)))
        address, length = self.range_of_arena()
        access = self.access() if flags & 4 or self.chance(0.05) else 0
        return 'rereg_mr', (region, flags, self.pd(), address, length, access)

    def dereg_mr(self):
        region = self.a_region()
        if region is None:
            return self.reg_mr()
        self.remember(self.model.regions[region])
        return 'dereg_mr', (region,)

    def update_key(self):
        region = self.a_region('fast')
        if region is None:
            return self.alloc_fast_mr()
        if self.chance(0.05):
            region = self.a_region()
        return 'update_key', (region, self.below(256))

    def alloc_mw(self):
        window = self.slot(self.model.windows, WINDOWS)
        if window is None:
            return self.dealloc_mw()
        return 'alloc_mw', (window, self.pd(), 1 + self.below(2))

    def dealloc_mw(self):
        window = self.a_window()
        if window is None:
            return self.alloc_mw()
        self.remember(self.model.windows[window])
        return 'dealloc_mw', (window,)

    def alloc_or_free_list(self):
        number = self.slot(self.model.lists, LISTS)
        if number is None or self.chance(0.2) and self.model.lists:
            return 'free_list', (self.pick(list(self.model.lists)),)
        return 'alloc_list', (number, 1 + self.below(MAX_PAGES))

    def alloc_or_dealloc_pd(self):
        number = self.slot(self.model.pds, PDS)
        if number is None or self.chance(0.2) and len(self.model.pds) > 1:
            return 'dealloc_pd', (self.pd(),)
        return 'alloc_pd', (number,)

    def disturb_qp(self):
        """A QP is reset, or destroyed, by itself."""
        if not self.chance(0.3) or not self.model.qps:
            return self.alloc_mw()
        return self.pick(('reset_qp', 'destroy_qp')), (self.pick(list(self.model.qps)),)

    CONTROLS = (reg_mr, reg_mr, alloc_null_mr, alloc_fast_mr, rereg_mr, rereg_mr, dereg_mr,
                update_key, alloc_mw, alloc_mw, dealloc_mw, alloc_or_free_list,
                alloc_or_dealloc_pd, disturb_qp)

    def connect(self, connection):
        """The steps that bring both QPs of a connection to RTS."""
        for qp in (2 * connection, 2 * connection + 1):
            if qp in self.model.qps:
                yield 'reset_qp', (qp,)
            else:
                yield 'create_qp', (qp, self.pd(), connection not in UNRELIABLE)
        access = RIGHTS
        if self.chance(0.06):
            access &= ~self.pick((REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC))
        yield 'connect_qps', (2 * connection, access)

    # -- keys

    def remember(self, entry):
        if len(self.old_keys) > 40:
            del self.old_keys[:20]
        self.old_keys.append(entry.key)

    def entries(self):
        return [*self.model.regions.values(), *self.model.windows.values()]

    def entry_for(self, qp, right=0, local=False):
        """One that this QP can use so, more often than not."""
        entries = self.entries()
        if not entries:
            return None
        dice = self.random.random()
        if dice < 0.92:
            usable = [entry for entry in entries if entry.valid and entry.pd == qp.pd
                      and entry.qp in (None, qp.number) and not (local and entry.is_window)]
            entries = usable or entries
        elif dice < 0.95:
            entries = [entry for entry in entries if entry.qp is not None] or entries
        if dice < 0.88:
            entries = [entry for entry in entries if right & ~entry.access == 0] or entries
        return self.pick(entries)

    def key_of(self, entry):
        dice = self.random.random()
        if entry is None or dice < 0.01:
            return self.pick(self.old_keys)
        if dice < 0.03:
            return entry.key ^ 1 + self.below(255)
        return entry.user_key if dice < 0.06 else entry.key

    def range_in(self, entry, most=PAGE):
        """(address, length) in what the entry stands for; sometimes off by one."""
        size = min(entry.length, 8 * PAGE) if entry else PAGE
        start = entry.start if entry else self.arena.start
        length = min(self.pick((8, 1 + self.below(64), 1 + self.below(most))), max(size, 1))
        offset = self.pick((0, size - length, self.below(max(size - length, 1))))
        dice = self.random.random()
        if dice < 0.02:
            offset = -1
        elif dice < 0.04:
            offset = size - length + 1
        elif dice < 0.05:
            length = 0
        elif dice < 0.055:
            offset = TOP - length - start + self.below(2)
        return (start + offset) % TOP, length

    # -- work requests

    def work(self, opcode, qp, **values):
        number = qp.number
        self.wr_ids[number] += 1
        queue = 2 * number + (opcode == RECV)
        return Work(queue << 32 | self.wr_ids[number], opcode, number, **values)

    def own_memory(self, length):
        """An SGE of the asking side."""
        offset = self.below(self.asking.length - length)
        return self.asking.start + offset, length, self.asking_key

    def local_sges(self, qp, length=None, right=0):
        """SGEs of a QP's own side; of the side with the keys they are what is tested."""
        sges = []
        for _ in range(2 if self.chance(0.2) and length is None else 1):
            if qp.number & 1:
                entry = self.entry_for(qp, right, local=True)
                address, size = self.range_in(entry)
                sges.append((address, size if length is None else length, self.key_of(entry)))
            else:
                sges.append(self.own_memory(1 + self.below(256) if length is None else length))
        return sges

    def batch(self):
        """Work requests of one QP, posted at once; what a receive needs is posted before."""
        connection = self.below(CONNECTIONS)
        numbers = (2 * connection, 2 * connection + 1)
        states = [self.model.qps[qp].state if qp in self.model.qps else None for qp in numbers]
        if states != ['RTS', 'RTS'] and self.chance(0.8) or None in states:
            return 'connect', (connection,)
        asking, owner = (self.model.qps[qp] for qp in numbers)
        count = 1 if self.chance(0.5) else 1 + self.below(BATCH)
        works = []
        if self.chance(0.5):
            for _ in range(count):
                works += self.asking_work(asking, owner)
        else:
            for _ in range(count):
                works += self.owner_work(owner, asking)
        # The receives first: the other QP's queue is not in order with this one.
        works.sort(key=lambda work: work.opcode != RECV)
        return 'batch', works

    def receive(self, qp):
        """A receive, and for how many bytes."""
        if self.chance(0.02):
            return [], 16
        sges = self.local_sges(qp, right=LOCAL_WRITE)
        length = sum(size for _, size, _ in sges)
        return [self.work(RECV, qp, sges=sges)], length

    def remote(self, qp, length):
        """What an operation towards the asking side names, for so many bytes."""
        key = self.asking_key ^ (1 if self.chance(0.03) else 0)
        return {'remote_address': self.own_memory(length)[0], 'rkey': key}

    def asking_work(self, qp, peer):
        dice = self.random.random()
        if dice < 0.27:
            receive, length = self.receive(peer)
            length = 1 + self.below(length) if self.chance(0.97) else length + 1
            sges = self.local_sges(qp, length)
            if dice < 0.15:
                return receive + [self.work(SEND, qp, sges=sges)]
            entry = self.invalidatable(peer)
            if not entry:
                return []
            return receive + [self.work(SEND_INV, qp, sges=sges, invalidate=self.key_of(entry))]
        if dice < 0.28:
            return [self.work(LOCAL_INV, qp, invalidate=self.key_of(self.invalidatable(peer)))]
        opcode = self.pick((WRITE, READ, WRITE, READ, CMP_SWP, FETCH_ADD) if qp.reliable or
                           self.chance(0.02) else (WRITE,))
        entry = self.entry_for(peer, RIGHT_OF[opcode])
        address, length = self.range_in(entry, 2 * PAGE)
        values = {'remote_address': address, 'rkey': self.key_of(entry)}
        if opcode in ATOMICS:
            length = 8 if self.chance(0.98) else 4
            if self.chance(0.9):
                values['remote_address'] = self.aligned_in(entry, address)
            values['compare_add'], values['swap'] = self.operands(opcode, address)
        return [self.work(opcode, qp, sges=[self.own_memory(length)], **values)]

    def aligned_in(self, entry, address):
        """A multiple of 8 close by, inside if it fits."""
        address &= ~7
        if entry and address < entry.start and address + 16 <= entry.start + entry.length:
            address += 8
        elif entry and address + 8 > entry.start + entry.length and address - 8 >= entry.start:
            address -= 8
        return address

    def operands(self, opcode, address):
        compare = self.below(TOP)
        if opcode == CMP_SWP and self.chance(0.5):
            memory = self.arena
            if memory.start <= address <= memory.end - 8:
                compare = int.from_bytes(memory.read(address & ~7, 8), 'little')
        return compare, self.below(TOP)

    def owner_work(self, qp, peer):
        dice = self.random.random()
        work = []
        if dice < 0.35:
            work = self.bind(qp)
        elif dice < 0.65:
            work = self.fast_reg(qp)
        elif dice < 0.75:
            entry = self.invalidatable(qp)
            work = [self.work(LOCAL_INV, qp, invalidate=self.key_of(entry))] if entry else []
        return work or self.owner_transfer(qp, peer)

    def owner_transfer(self, qp, peer):
        opcode = self.pick((SEND, WRITE, READ, READ_INV) if qp.reliable else (SEND, WRITE))
        sges = self.local_sges(qp, right=LOCAL_WRITE if opcode in (READ, READ_INV) else 0)
        length = sum(size for _, size, _ in sges)
        if length > self.asking.length // 2:
            return []
        if opcode == SEND:
            return self.receive_of(peer, length) + [self.work(SEND, qp, sges=sges)]
        values = self.remote(peer, length)
        if opcode == READ_INV:
            entry = self.invalidatable(qp)
            if not entry:
                return []
            values['invalidate'] = self.key_of(entry)
        return [self.work(opcode, qp, sges=sges, **values)]

    def receive_of(self, peer, length):
        size = length - (1 if length and self.chance(0.02) else 0)
        return [self.work(RECV, peer, sges=[self.own_memory(size)])]

    def invalidatable(self, qp):
        """An entry that a work request of this QP may invalidate, more often than not; or None."""
        if self.chance(0.08):
            return self.entry_for(qp)
        found = [entry for entry in self.entries() if entry.valid and entry.pd == qp.pd
                 and (not entry.bound or self.chance(0.05))
                 and (entry.kind == 'fast' or entry.kind == 'type 2' and entry.qp == qp.number)]
        return self.pick(found) if found else None

    def bind(self, qp):
        model = self.model
        windows = list(model.windows)
        if self.chance(0.9):
            windows = [number for number, window in model.windows.items()
                       if window.pd == qp.pd and not (window.kind == 'type 2' and window.valid)]
        regions = list(model.regions)
        if self.chance(0.9):
            regions = [number for number, region in model.regions.items()
                       if region.pd == qp.pd and region.valid and region.access & MW_BIND
                       and region.user_key == region.key]
        if not windows or not regions:
            return []
        number, region_number = self.pick(windows), self.pick(regions)
        window, region = model.windows[number], model.regions[region_number]
        address, length = self.range_in(region, 2 * PAGE)
        opcode = BIND_1 if (window.kind == 'type 1') != self.chance(0.01) else BIND_2
        access = self.pick((REMOTE, REMOTE, REMOTE, self.below(16)))
        if not region.access & LOCAL_WRITE and self.chance(0.9):
            access = REMOTE_READ
        if self.chance(0.2):
            access |= ZERO_BASED
        if self.chance(0.01):
            access |= MW_BIND
        if opcode == BIND_1 and self.chance(0.1):
            length = 0
        key = window.key & ~0xff | self.below(256)
        if self.chance(0.01):
            key += 1 << 8
        return [self.work(opcode, qp, window=number, region=region_number, address=address,
                          length=length, access=access, key=key)]

    def fast_reg(self, qp):
        model = self.model
        regions = [entry for entry in model.regions.values() if entry.kind == 'fast'
                   and entry.pd == qp.pd and not entry.valid]
        if self.chance(0.1):
            regions = self.entries()
        if not regions or not model.lists:
            return []
        region, number = self.pick(regions), self.pick(list(model.lists))
        room = min(model.lists[number], max(region.max_pages, 1))
        count = 1 + self.below(room)
        if self.chance(0.05):
            count = self.below(MAX_PAGES + 2)
        shift = self.pick((12,) * 30 + (13, 11, 22))
        in_arena = self.arena.length // PAGE - (3 if self.chance(0.9) else 0)
        in_arena -= shift == 13  # two of ours: what follows the arena is not to be touched
        pages = [self.arena.start + self.below(in_arena) * PAGE for _ in range(count)]
        if pages and self.chance(0.02):
            pages[-1] += 8
        address = self.pick((0, 0x10000000, self.arena.start)) + self.pick((0, 0, 8, 100, PAGE - 4))
        if self.chance(0.01):
            address = TOP - PAGE
        room = max((count << shift) - address % PAGE, 0)
        length = self.pick((room, 1 + self.below(max(room, 1))))
        if self.chance(0.02):
            length = room + 1
        if shift == 22:
            length = PAGE
        access = self.access()
        key = region.key & ~0xff | self.below(256) if self.chance(0.5) else region.user_key
        return [self.work(FAST_REG, qp, page_list=number, pages=pages, num_pages=count,
                          page_shift=shift, address=address, length=length, access=access,
                          key=key if self.chance(0.99) else self.pick(self.old_keys))]
