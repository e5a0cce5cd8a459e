# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The models in Promela: spin explores every state of each, and finds nothing wrong. Each model lists
mutants in its first comment; those must fail, or the model would prove nothing. One may list worlds there
that have less in them, which SIMHCA_PROMELA=short explores in place of all.
"""
import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 10000  # of the search; the verifier says if it was not enough
MODELS = sorted(name for name in os.listdir(HERE) if name.endswith('.pml'))
SHORT = os.environ.get('SIMHCA_PROMELA') == 'short'


def listed(pattern, model):
    """What the first comment lists, one a line, and the whole text."""
    with open(os.path.join(HERE, model), encoding='utf-8') as file:
        text = file.read()
    return re.findall(pattern, text[:text.index('#define')], re.M), text


def mutants(model):
    """The names of what can be taken away."""
    names, text = listed(r'^ \*\t([A-Z_]+)\t', model)
    bounds = {world.partition('=')[0] for world in listed(r'^ \*\tworld: (\S+)$', model)[0]}
    used = set(re.findall(r'^#if(?:n)?def (\w+)', text, re.M))
    assert set(names) | bounds == used, f'{model}: {(set(names) | bounds) ^ used}'
    return names


def worlds(model):
    """What is defined in each that is to be explored."""
    smaller = listed(r'^ \*\tworld: (\S+)$', model)[0]
    return [[world] for world in smaller] if SHORT and smaller else [[]]


def explore(model, directory, *defines, optimized=False):
    """What the verifier of a model says."""
    for tool in ('spin', 'gcc'):
        if not shutil.which(tool):
            pytest.fail(f'no {tool}: scripts/install-deps check installs it')
    flags = [f'-D{name}' for name in defines]
    subprocess.run(['spin', *flags, '-a', os.path.join(HERE, model)], cwd=directory, check=True,
                   stdout=subprocess.DEVNULL)
    # SAFETY: end states and assertions, which is all that the models have. MEMLIM: MB. A mutant is
    # found sooner than a compiler has optimized.
    subprocess.run(['gcc', '-O1' if optimized else '-O0', '-w', '-DSAFETY', '-DMEMLIM=2048', '-o', 'pan', 'pan.c'],
                   cwd=directory, check=True)
    done = subprocess.run(['./pan', f'-m{DEPTH}'], cwd=directory, timeout=300, text=True,
                          capture_output=True, check=False)
    return done.stdout + done.stderr


def number(pattern, said):
    return int(float(re.search(pattern, said)[1]))


@pytest.mark.parametrize('model', MODELS)
def test_holds(model, tmp_path):
    """No lost wake-up, no deadlock, no assertion violated; and the state space was explored whole."""
    # Whatever the model says is done by somebody, in one of the worlds.
    left = set.intersection(*(explored_whole(model, tmp_path, *world) for world in worlds(model)))
    assert not left


def explored_whole(model, directory, *world):
    """Nothing is wrong in a world; the lines of the model that nobody has reached there."""
    said = explore(model, directory, *world, optimized=True)
    assert re.search(r'errors: 0$', said, re.M), said
    assert re.search(r'^Full statespace search for:', said, re.M), said
    for checked in ('assertion violations', 'invalid end states'):
        assert re.search(rf'{checked}\s+\+', said), said
    for partial in ('Bit statespace', 'Hash-Compact', 'max search depth too small', 'not completed',
                    'out of memory', 'reached -DMEMLIM', 'interrupted'):
        assert partial not in said, said
    assert number(r'depth reached (\d+)', said) < DEPTH
    assert number(r'([\d.e+]+) states, stored', said) > 1000, said
    unreached = re.findall(r'unreached in (.+)\n((?:\t.*\n)+)', said)
    return {(who, line) for who, lines in unreached for line in re.findall(r'^\t(.+, state (?!.*-end-).*)$', lines, re.M)}


@pytest.mark.parametrize('model, mutant', [(m, name) for m in MODELS for name in mutants(m)])
def test_mutant_fails(model, mutant, tmp_path):
    """Without this part of the protocol spin finds what goes wrong."""
    said = explore(model, tmp_path, mutant, *worlds(model)[-1])
    assert number(r'errors: (\d+)', said) == 1, said
    assert 'invalid end state' in said or 'assertion violated' in said, said
