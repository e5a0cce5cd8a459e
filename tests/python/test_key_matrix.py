# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Every kind of key, used by every user, in every way, in every state, through libibverbs: the status
at both ends, vendor_err, the asynchronous event, and that memory changes exactly when it may. What
is expected stands in tests/key_rules.def; the reference model, which is asked as well, has to agree.
"""
import itertools
import os
import re

import pytest

import memory_world
import programs
import verbs_enums as e
from harness import REPO, is_type_2a
from memory_model import (BIND_1, BIND_2, EVENT_OF, FAST_REG, FETCH_ADD, LOCAL_INV, LOCAL_WRITE,
                          MW_BIND, PAGE, READ, RECV, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE,
                          RIGHTS, SEND, SEND_INV, SUCCESS, WRITE)

KINDS = ('region', 'type 1', 'type 2', 'fast')
USERS = {'owner': 0, 'other QP': 1, 'other PD': 2}  # the connections
USES = {'write': WRITE, 'read': READ, 'atomic': FETCH_ADD, 'send target': SEND,
        'remote invalidate': SEND_INV, 'local invalidate': LOCAL_INV}
STATES = ('free', 'valid', 'invalidated', 'stale', 'a byte below', 'a byte past',
          'right missing on the key', 'right missing on the QP')
RIGHT = {'write': REMOTE_WRITE, 'read': REMOTE_READ, 'atomic': REMOTE_ATOMIC,
         'send target': LOCAL_WRITE}
INVALIDATIONS = ('remote invalidate', 'local invalidate')
# What the rules call these.
IN_RULES = {
    'region': 'REGION', 'type 1': 'WINDOW_1', 'fast': 'FAST',
    'owner': 'OWNER', 'other QP': 'OTHER_QP', 'other PD': 'OTHER_PD',
    'write': 'WRITE', 'read': 'READ', 'atomic': 'ATOMIC', 'send target': 'RECEIVE',
    'remote invalidate': 'REMOTE_INV', 'local invalidate': 'LOCAL_INV',
    'free': 'FREE', 'valid': 'VALID', 'invalidated': 'INVALIDATED', 'stale': 'STALE',
    'a byte below': 'BELOW', 'a byte past': 'PAST', 'right missing on the key': 'KEY_LACKS_RIGHT',
    'right missing on the QP': 'QP_LACKS_RIGHT'}

# Not a multiple of 8 at either end, so that an aligned atomic can be wrong by one byte.
START, LENGTH = PAGE + 1, PAGE - 2
OBJECT, BASE, LIST = 5, 6, 0  # numbers of what is tested, of a region for windows, of a page list


def is_window(kind):
    return kind.startswith('type')


def applies(kind, use, state):
    """Some states say nothing of some keys and uses."""
    if use in INVALIDATIONS and state not in STATES[:4]:
        return False
    if use == 'send target' and state == 'right missing on the QP':
        return False  # a QP grants nothing to messages
    if kind == 'region' and state == 'invalidated':
        return False  # nobody can
    return True


def read_rules(macro):
    """The arguments of each such line of the table: sets of names, but for what it says."""
    with open(os.path.join(REPO, 'tests', 'key_rules.def'), encoding='utf-8') as file:
        lines = re.findall(rf'^{macro}\((.*)\)$', file.read(), re.M)
    return [[set(argument.split(' | ')) for argument in line.split(', ')] for line in lines]


RULES = read_rules('RULE')
OUTCOMES = read_rules('OUTCOME')


def applies_to(sets, names):
    return all(names_in_rule & {'ANY', name} for names_in_rule, name in zip(sets, names))


def refusal(kind, user, use, state, type_2a):
    """The reason for which this is refused, or None."""
    names = [IN_RULES.get(name) or ('WINDOW_2A' if type_2a else 'WINDOW_2B')
             for name in (kind, user, use, state)]
    reasons = [reason for *sets, (reason,) in RULES if applies_to(sets, names)]
    return None if not reasons or reasons[0] == 'NONE' else reasons[0]


def statuses(use, state, reason):
    """At the requester, and of the receive, which there may be none of: then there is an event."""
    if not reason:
        return SUCCESS, SUCCESS if use in ('send target', 'remote invalidate') else None
    names = [IN_RULES[use], IN_RULES[state]]
    return next((getattr(e, f'IBV_WC_{requester}'), getattr(e, f'IBV_WC_{receiver}', None))
                for *sets, (requester,), (receiver,) in OUTCOMES if applies_to(sets, names))


class Case:
    """One key in one state, and its use."""

    def __init__(self, world, kind, use, state):
        self.world, self.kind, self.use, self.state = world, kind, use, state
        self.address = world.arena.start + START
        rights = RIGHTS & ~RIGHT[use] if state == 'right missing on the key' else RIGHTS
        if not rights & LOCAL_WRITE:
            rights = REMOTE_READ  # the others need it
        self.rights = rights
        self.make()

    def queue(self, connection=0, owner=True):
        return self.world.model.qps[2 * connection + owner]

    def post(self, opcode, connection=0, owner=True, **values):
        return self.world.steps.work(opcode, self.queue(connection, owner), **values)

    def make(self):
        world, state = self.world, self.state
        if self.kind == 'region':
            world.verb('reg_mr', (OBJECT, 0, self.address, LENGTH, self.address, self.rights))
            self.entry = world.model.regions[OBJECT]
            if state == 'free':
                world.verb('dereg_mr', (OBJECT,))
        elif self.kind == 'fast':
            world.verb('alloc_fast_mr', (OBJECT, 0, 1))
            world.verb('alloc_list', (LIST, 1))
            self.entry = world.model.regions[OBJECT]
            if state != 'free':
                world.batch([self.post(FAST_REG, page_list=LIST, num_pages=1, address=self.address,
                                       pages=[world.arena.start + PAGE], length=LENGTH,
                                       access=self.rights, key=self.entry.key)])
        else:
            world.verb('reg_mr', (BASE, 0, world.arena.start, 4 * PAGE, world.arena.start,
                                  LOCAL_WRITE | MW_BIND))
            world.verb('alloc_mw', (OBJECT, 0, int(self.kind[-1])))
            self.entry = world.model.windows[OBJECT]
            if state != 'free':
                self.bind(self.address, LENGTH)
        if state == 'invalidated' and self.kind == 'type 1':
            self.bind(0, 0)
        elif state == 'invalidated':
            world.batch([self.post(LOCAL_INV, invalidate=self.entry.key)])

    def bind(self, address, length):
        opcode = BIND_1 if self.kind == 'type 1' else BIND_2
        self.world.batch([self.post(opcode, window=OBJECT, region=BASE, address=address,
                                    length=length, access=self.rights & ~LOCAL_WRITE,
                                    key=self.entry.key ^ 0x80)])

    def key(self):
        return self.entry.key ^ 1 if self.state == 'stale' else self.entry.key

    def range(self):
        """(address, length) of the access."""
        shift = {'a byte below': -1, 'a byte past': 1}.get(self.state, 0)
        if self.use != 'atomic':
            return self.address + shift, LENGTH
        return {-1: self.address - 1, 0: self.address + 7, 1: self.address + LENGTH - 7}[shift], 8

    def run(self, connection):
        """The use: posts what it needs, and checks what the model expects."""
        key, (address, length) = self.key(), self.range()
        own = [self.world.steps.own_memory(length)]
        if self.use == 'local invalidate':
            works = [self.post(LOCAL_INV, connection, invalidate=key)]
        elif self.use == 'remote invalidate':
            target = [(self.world.arena.start, 8, self.spare_key(connection))]
            works = [self.post(RECV, connection, sges=target),
                     self.post(SEND_INV, connection, False, sges=[self.world.steps.own_memory(8)],
                               invalidate=key)]
        elif self.use == 'send target':
            works = [self.post(RECV, connection, sges=[(address, length, key)]),
                     self.post(SEND, connection, False, sges=own)]
        else:
            works = [self.post(USES[self.use], connection, False, sges=own, rkey=key,
                               remote_address=address, compare_add=1 << 40 | 3)]
        self.world.batch(works)
        return self.world.found, works[-1].wr_id

    def spare_key(self, connection):
        """Of a region for the message itself, in the PD of the QP that receives it."""
        self.world.verb('reg_mr', (7, self.queue(connection).pd, self.world.arena.start, PAGE,
                                   self.world.arena.start, RIGHTS))
        return self.world.model.regions[7].key

    def end(self, connection):
        world = self.world
        reset(world, 0)
        reset(world, connection)
        if OBJECT in world.model.windows:
            world.verb('dealloc_mw', (OBJECT,))
        for region in list(world.model.regions):
            world.verb('dereg_mr', (region,))
        if LIST in world.model.lists:
            world.verb('free_list', (LIST,))


def reset(world, connection, access=RIGHTS):
    for qp in (2 * connection, 2 * connection + 1):
        world.verb('reset_qp', (qp,))
    world.verb('connect_qps', (2 * connection, access))


@pytest.fixture(scope='module')
def library(tmp_path_factory):
    return memory_world.load(tmp_path_factory.mktemp('matrix'))


@pytest.fixture
def world(library, ctx):
    """Connections: 0 and 1 of PD 0, 2 of PD 1."""
    made = memory_world.World(library, 1, is_type_2a(ctx))
    for pd in range(2):
        made.verb('alloc_pd', (pd,))
    for connection, pd in enumerate((0, 0, 1)):
        for qp in (2 * connection, 2 * connection + 1):
            made.verb('create_qp', (qp, pd, True))
        made.verb('connect_qps', (2 * connection, RIGHTS))
    yield made
    made.close()


def check(world, case, user, reason, connection):
    """Uses the key, and compares what the device said with what the rules say."""
    found, asked = case.run(connection)
    status, receive = statuses(case.use, case.state, reason)
    said = {completion.wr_id == asked: (completion.status, completion.reason)
            for completion in found}
    what = (case.kind, user, case.use, case.state)
    assert said.pop(True) == (status, reason if reason and status != SUCCESS else 'NONE'), what
    assert said == ({} if receive is None else {False: (receive, reason or 'NONE')}), what
    events = [EVENT_OF[status]] if reason and receive is None and status in EVENT_OF else []
    assert [event for event, _ in world.found_events] == events, what


@pytest.mark.parametrize('user', USERS)
@pytest.mark.parametrize('kind', KINDS)
def test_matrix(world, ctx, kind, user):
    connection, type_2a = USERS[user], is_type_2a(ctx)
    for use, state in itertools.product(USES, STATES):
        if not applies(kind, use, state):
            continue
        case = Case(world, kind, use, state)
        if state == 'right missing on the QP':
            reset(world, connection, RIGHTS & ~RIGHT[use])
            if kind == 'type 2' and user == 'owner':
                case.bind(case.address, LENGTH)  # the reset has freed it
        check(world, case, user, refusal(kind, user, use, state, type_2a), connection)
        case.end(connection)


@pytest.mark.time_limit(200)
@pytest.mark.once
def test_type_2a():
    """The same on a device whose type 2 windows are of type 2A."""
    if os.environ.get('SIMHCA_TEST_TYPE_2A'):
        pytest.skip('this is one')
    programs.private_tests('test_key_matrix.py', '-k', 'matrix and type', options=['--mw-type-2a'],
                           env={'SIMHCA_TEST_TYPE_2A': '1'})
