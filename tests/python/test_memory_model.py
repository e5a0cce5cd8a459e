# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The device against a reference model (memory_model.py), step by step through long random sequences
(memory_steps.py): status at both ends, vendor_err, opcodes, events, errno of every call, and each
byte of memory. The seed is printed with a failure, and given by SIMHCA_SEED; the number of steps
is SIMHCA_STEPS, and by itself 100,000 with SIMHCA_SOAK=1.
"""
import os
import random

import pytest

import memory_world
import programs
from harness import is_type_2a
from memory_model import Model
from memory_world import Disagreement, World

SOAK = bool(os.environ.get('SIMHCA_SOAK'))
STEPS = int(os.environ.get('SIMHCA_STEPS', 100000 if SOAK else 10000))


@pytest.fixture(scope='module')
def library(tmp_path_factory):
    return memory_world.load(tmp_path_factory.mktemp('model'))


@pytest.fixture
def world(library, ctx):
    seed = os.environ.get('SIMHCA_SEED') or str(random.SystemRandom().getrandbits(32))
    print(f'SIMHCA_SEED={seed} SIMHCA_STEPS={STEPS}')
    return memory_world.connected(library, int(seed, 0), is_type_2a(ctx))


@pytest.mark.time_limit(1800 if SOAK else 240)
def test_agrees_with_the_model(world):
    world.run(STEPS)
    world.close()


@pytest.mark.parametrize('rule', ['_free_windows', '_fail_qp', '_check_bind'])
def test_disagreement_is_seen(world, monkeypatch, rule):
    """A model without one of the rules: it is noticed, and said where and after what."""
    monkeypatch.setattr(Model, rule, lambda self, *_: 0)
    monkeypatch.setattr(World, 'deadline', 1.0)
    with pytest.raises(Disagreement) as caught:
        world.run(100000)
    assert not world.library.world_abandon()
    assert f'seed {world.seed}, step {world.steps_done}' in str(caught.value)
    assert len(str(caught.value).splitlines()) > 10


@pytest.mark.once
@pytest.mark.time_limit(1800)
@pytest.mark.parametrize('options', [('--mw-type-2a',), ('--memory', 'agent')],
                         ids=['type-2a', 'agent'])
def test_other_devices(options):
    """One whose type 2 windows are of type 2A, and one that reaches memory by an agent."""
    programs.private_tests('test_memory_model.py::test_agrees_with_the_model', options=options,
                           env={'SIMHCA_STEPS': str(STEPS if SOAK else STEPS // 3)})
