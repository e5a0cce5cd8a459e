# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The device and the reference model side by side: whatever is asked is asked of both, and what they
say is compared, with every byte of memory. tests/programs/memory_verbs.c is how the device is asked.
"""
import collections
import ctypes
import random

import programs
from harness import REASON_NAME, status_name
from memory_model import BIND_1, BIND_2, PAGE, SUCCESS, Completion, Memory, Model
from memory_steps import CONNECTIONS, Steps

SHOWN = 40    # steps that a failure shows
ROOM = 256    # completions of one batch
WITH_INV = 8  # IBV_WC_WITH_INV

U32, U64 = ctypes.c_uint32, ctypes.c_uint64


def struct(**members):
    return type('Struct', (ctypes.Structure,), {'_fields_': list(members.items())})


SGE = struct(addr=U64, length=U32, lkey=U32)
WORK = struct(wr_id=U64, remote_addr=U64, compare_add=U64, swap=U64, addr=U64, length=U64,
              sge=SGE * 2, page=U64 * 16, opcode=U32, qp=U32, num_sge=U32, rkey=U32,
              invalidate=U32, window=U32, region=U32, list=U32, access=U32, key=U32,
              num_pages=U32, page_shift=U32, listed=U32)
COMPLETION = struct(wr_id=U64, status=U32, reason=U32, opcode=U32, length=U32, flags=U32, key=U32)
EVENT = struct(type=U32, qp=U32)

# The verbs: types of their arguments, and where a key comes back.
VERBS = {
    'alloc_pd': (U32,), 'dealloc_pd': (U32,), 'reg_mr': (U32, U32, U64, U64, U64, U32),
    'alloc_null_mr': (U32, U32), 'alloc_fast_mr': (U32, U32, U32),
    'rereg_mr': (U32, U32, U32, U64, U64, U32), 'dereg_mr': (U32,), 'update_key': (U32, U32),
    'alloc_mw': (U32, U32, U32), 'dealloc_mw': (U32,), 'alloc_list': (U32, U32),
    'free_list': (U32,), 'create_qp': (U32, U32, U32), 'destroy_qp': (U32,), 'reset_qp': (U32,),
    'connect_qps': (U32, U32),
}
MAKE_KEYS = {'reg_mr': 'regions', 'alloc_null_mr': 'regions', 'alloc_fast_mr': 'regions',
             'alloc_mw': 'windows'}


class Disagreement(AssertionError):
    pass


class World:
    """The device and the model, and a record of what they were last asked."""

    deadline = 30.0  # seconds until what must come has come

    def __init__(self, library, seed, type_2a):
        self.seed = seed
        self.library = library
        for name, types in VERBS.items():
            getattr(library, name).argtypes = (
                types + ((ctypes.POINTER(U32),) if name in MAKE_KEYS else ()))
        library.new_memory.restype = U64
        library.new_memory.argtypes = (U64,)
        library.protect.argtypes = (U64, U64, ctypes.c_int)
        library.drop.argtypes = (U64, U64)
        library.differ_at.restype = U64
        library.differ_at.argtypes = (U64, ctypes.c_void_p, U64)
        library.world_open.argtypes = (U64, U64, ctypes.POINTER(U32))
        library.collect.argtypes = (ctypes.c_void_p, U32, U32, ctypes.c_double)
        library.collect_events.argtypes = (ctypes.c_void_p, U32, U32, ctypes.c_double)
        self.completions, self.events = (COMPLETION * ROOM)(), (EVENT * ROOM)()
        self.found, self.found_events = [], []  # in the last batch, as the device gave them
        self.work = WORK()
        self.key = U32()
        self.history = collections.deque(maxlen=SHOWN)
        self.steps_done = 0
        self.arena, self.asking = self._memory(16, True), self._memory(8, False)
        self.model = Model((self.arena, self.asking), type_2a)
        assert not library.world_open(self.asking.start, self.asking.length,
                                      ctypes.byref(self.key))
        self._asking_region()
        self.steps = Steps(seed, self.model, self.arena, self.asking, self.key.value)

    def _memory(self, pages, with_holes):
        """At the end of the arena: a page that is not there, one to read only, and a good one."""
        length = pages * PAGE
        start = self.library.new_memory(length)
        holes, read_only = ({pages - 3}, {pages - 2}) if with_holes else ((), ())
        memory = Memory(start, length, holes, read_only)
        data = random.Random(self.seed).randbytes(length)
        ctypes.memmove(start, data, length)
        memory.bytes[:] = data
        memory.length = length
        memory.mirror = ctypes.addressof((ctypes.c_char * length).from_buffer(memory.bytes))
        for page in holes:
            assert not self.library.drop(start + page * PAGE, PAGE)
        for page in read_only:
            assert not self.library.protect(start + page * PAGE, PAGE, 0)
        memory.parts = [(0, (pages - 3) * PAGE), ((pages - 2) * PAGE, length)] if with_holes else [
            (0, length)]
        return memory

    def _asking_region(self):
        """The asking side's one region, which is there all the time."""
        model = self.model
        model.reg_mr('asking', 'asking', self.asking.start, self.asking.length, self.asking.start,
                     15)
        model.created(model.regions.pop('asking'), self.key.value)

    # -- disagreement

    def fail(self, what, model, device):
        lines = [f'seed {self.seed}, step {self.steps_done}: {what}', f'  model:  {model}',
                 f'  device: {device}',
                 f'  the model on the last step: {[shown(one) for one in self.model.completions]}, '
                 f'open {[(hex(at), len(data)) for at, data in self.model.maybe]}',
                 'the last steps, the latest at the end:']
        lines += [f'  {step}' for step in self.history]
        raise Disagreement('\n'.join(lines))

    def agree(self, what, model, device):
        if model != device:
            self.fail(what, model, device)

    # -- steps

    def run(self, count):
        while self.steps_done < count:
            name, arguments = self.steps.step()
            if name == 'batch':
                self.batch(arguments)
            elif name == 'connect':
                for step in self.steps.connect(*arguments):
                    self.verb(*step)
                self.settle()
            else:
                self.verb(name, arguments)
                self.settle()

    def verb(self, name, arguments):
        self.steps_done += 1
        self.history.append(f'{name}{arguments}')
        call, model = getattr(self.library, name), getattr(self.model, name)
        if name not in MAKE_KEYS:
            self.agree(f'errno of {name}{arguments}', model(*arguments), call(*arguments))
            return
        said = model(*arguments)
        self.agree(f'errno of {name}{arguments}', said, call(*arguments, ctypes.byref(self.key)))
        if not said:
            self.history[-1] += f' = key 0x{self.key.value:x}'
            entry = getattr(self.model, MAKE_KEYS[name])[arguments[0]]
            if not self.model.created(entry, self.key.value):
                self.fail('the new key', 'one that nobody has', hex(self.key.value))

    def batch(self, works):
        for work in works:
            self.steps_done += 1
            self.history.append(work)
            # A list that the device has is not to be written.
            self.work.listed = 0 if work.page_list in self.model.lists_posted else len(work.pages)
            self.agree('errno of the post', self.model.post(work), self.post(work))
            if work.opcode in (BIND_1, BIND_2):
                self.agree('rkey of the window',
                           self.model.windows[work.window].user_key,
                           self.library.window_key(work.window))
        self.settle()

    def post(self, work):
        to = self.work
        to.wr_id, to.opcode, to.qp, to.num_sge = work.wr_id, work.opcode, work.qp, len(work.sges)
        for sge, (address, length, key) in zip(to.sge, work.sges):
            sge.addr, sge.length, sge.lkey = address, length, key
        to.remote_addr, to.rkey, to.invalidate = work.remote_address, work.rkey, work.invalidate
        to.compare_add, to.swap, to.key = work.compare_add, work.swap, work.key
        to.window, to.region, to.list = work.window, work.region, work.page_list
        to.addr, to.length, to.access = work.address, work.length, work.access
        to.num_pages, to.page_shift = work.num_pages, work.page_shift
        for index, page in enumerate(work.pages):
            to.page[index] = page
        return self.library.post(ctypes.byref(to))

    # -- what came of it

    def settle(self):
        """Everything that the model expects has come, and nothing else."""
        model = self.model
        expected = model.completions
        count = self.library.collect(self.completions, len(expected), ROOM, self.deadline)
        found = self.found = [self.read(self.completions[index]) for index in range(count)]
        # Each queue has its order, and different ones none; the queue is in the number.
        for got, want in zip(by_queue(found), by_queue(expected)):
            if got[:3] != want[:3] or want.status == SUCCESS and got != want:
                self.fail('a completion', shown(want), shown(got))
        if len(found) != len(expected):
            self.fail('the completions', [shown(one) for one in by_queue(expected)],
                      [shown(one) for one in by_queue(found)])
        self.settle_events()
        self.compare_memory()
        model.polled()

    @staticmethod
    def read(completion):
        """As the model puts it: without what a completion of this kind does not say."""
        receive = completion.wr_id >> 32 & 1
        inv = bool(completion.flags & WITH_INV)
        if completion.status != SUCCESS:
            return Completion(completion.wr_id, completion.status,
                              REASON_NAME.get(completion.reason, completion.reason),
                              key=completion.key if inv else None)
        return Completion(completion.wr_id, completion.status,
                          REASON_NAME.get(completion.reason, completion.reason), completion.opcode,
                          completion.length if receive else None, completion.key if inv else None)

    def settle_events(self):
        expected = self.model.events
        self.found_events = []
        if not expected and self.steps_done % 64:
            return  # each look at the pipe is a system call
        count = self.library.collect_events(self.events, len(expected), ROOM, self.deadline)
        found = [(event.type, event.qp) for event in self.events[:count]]
        self.agree('asynchronous events (type, QP)', sorted(expected), sorted(found))
        self.found_events = found

    def compare_memory(self):
        self.settle_maybe()
        for name, memory in (('arena', self.arena), ('asking', self.asking)):
            for start, end in memory.parts:
                at = self.library.differ_at(memory.start + start, memory.mirror + start,
                                            end - start)
                if at != end - start:
                    place = memory.start + start + at
                    self.fail(f'byte at {place:#x}, {start + at} in the {name} memory',
                              memory.bytes[start + at], ctypes.string_at(place, 1)[0])

    def settle_maybe(self):
        """A byte that may be new is the old one or one of those; the model learns which."""
        allowed = collections.defaultdict(set)
        for address, data in self.model.maybe:
            for index, byte in enumerate(data):
                allowed[address + index].add(byte)
        for address, bytes_ in allowed.items():
            memory = self.arena if self.arena.start <= address < self.arena.end else self.asking
            now = ctypes.string_at(address, 1)
            if now[0] not in bytes_ and now != memory.read(address, 1):
                self.fail(f'byte at {address:#x}', bytes_ | set(memory.read(address, 1)), now[0])
            memory.write(address, now)

    def close(self):
        """In the order of dependency; each call must succeed."""
        model = self.model
        for name, numbers in (('destroy_qp', model.qps), ('dealloc_mw', model.windows),
                              ('dereg_mr', model.regions), ('free_list', model.lists),
                              ('dealloc_pd', model.pds)):
            for number in list(numbers):
                self.verb(name, (number,))
        self.agree('closing the device', 0, self.library.world_close())


def by_queue(completions):
    return sorted(completions, key=lambda completion: completion.wr_id >> 32)


def shown(completion):
    return completion._replace(wr_id=hex(completion.wr_id), status=status_name(completion.status))


def load(directory):
    """The library that World needs, compiled."""
    return ctypes.CDLL(programs.compiled('memory_verbs.c', directory, library=True, dv=True))


def connected(library, seed, type_2a):
    """A World with some PDs and all connections."""
    world = World(library, seed, type_2a)
    for pd in range(2):
        world.verb('alloc_pd', (pd,))
    for connection in range(CONNECTIONS):
        for step in world.steps.connect(connection):
            world.verb(*step)
    return world
