# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The models in Promela: spin explores every state of each, and finds nothing wrong. Each model lists
mutants in its first comment; those must fail, or the model would prove nothing.
"""
import os
import re
import shutil
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
DEPTH = 10000  # of the search; the verifier says if it was not enough
MODELS = sorted(name for name in os.listdir(HERE) if name.endswith('.pml'))


def mutants(model):
    """The names that the first comment lists, one a line."""
    with open(os.path.join(HERE, model), encoding='utf-8') as file:
        text = file.read()
    listed = re.findall(r'^ \*\t([A-Z_]+)\t', text[:text.index('#define')], re.M)
    used = set(re.findall(r'^#if(?:n)?def (\w+)', text, re.M))
    assert set(listed) == used, f'{model}: {set(listed) ^ used}'
    return listed


def explore(model, directory, *defines):
    """What the verifier of a model says."""
    for tool in ('spin', 'gcc'):
        if not shutil.which(tool):
            pytest.fail(f'no {tool}: scripts/install-deps test installs it')
    flags = [f'-D{name}' for name in defines]
    subprocess.run(['spin', *flags, '-a', os.path.join(HERE, model)], cwd=directory, check=True,
                   stdout=subprocess.DEVNULL)
    # SAFETY: end states and assertions, which is all that the models have. MEMLIM: MB. A mutant is
    # found sooner than a compiler has optimized.
    subprocess.run(['gcc', '-O0' if defines else '-O1', '-w', '-DSAFETY', '-DMEMLIM=2048', '-o', 'pan', 'pan.c'],
                   cwd=directory, check=True)
    done = subprocess.run(['./pan', f'-m{DEPTH}'], cwd=directory, timeout=300, text=True,
                          capture_output=True, check=False)
    return done.stdout + done.stderr


def number(pattern, said):
    return int(float(re.search(pattern, said)[1]))


@pytest.mark.parametrize('model', MODELS)
def test_holds(model, tmp_path):
    """No lost wake-up, no deadlock, no assertion violated; and the state space was explored whole."""
    said = explore(model, tmp_path)
    assert re.search(r'errors: 0$', said, re.M), said
    assert re.search(r'^Full statespace search for:', said, re.M), said
    for checked in ('assertion violations', 'invalid end states'):
        assert re.search(rf'{checked}\s+\+', said), said
    for partial in ('Bit statespace', 'Hash-Compact', 'max search depth too small', 'not completed',
                    'out of memory', 'reached -DMEMLIM', 'interrupted'):
        assert partial not in said, said
    assert number(r'depth reached (\d+)', said) < DEPTH
    assert number(r'([\d.e+]+) states, stored', said) > 1000, said
    # Whatever the model says is done by somebody.
    unreached = re.findall(r'unreached in (.+)\n((?:\t.*\n)+)', said)
    left = [lines for _, lines in unreached if re.search(r'^\t.+, state (?!.*-end-)', lines, re.M)]
    assert not left, said


@pytest.mark.parametrize('model, mutant', [(m, name) for m in MODELS for name in mutants(m)])
def test_mutant_fails(model, mutant, tmp_path):
    """Without this part of the protocol spin finds what goes wrong."""
    said = explore(model, tmp_path, mutant)
    assert number(r'errors: (\d+)', said) == 1, said
    assert 'invalid end state' in said or 'assertion violated' in said, said
