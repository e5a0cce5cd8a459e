# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Keys granted, used, abused and taken back at once, by threads of several processes and through two
engine threads: tests/programs/key_stress.c has the rules and looks after them.
"""
import os

import pytest

import programs

SECONDS = 60 if os.environ.get('SIMHCA_SOAK') else 2


@pytest.mark.once
@pytest.mark.patience(200)
@pytest.mark.parametrize('options', [(), ('--mw-type-2a', '--memory', 'agent')],
                         ids=['type-2b', 'type-2a-agent'])
def test_key_stress(tmp_path, options):
    program = programs.compiled('key_stress.c', tmp_path, dv=True)
    done = programs.private([program, str(SECONDS)], '--engines', '2', *options, timeout=190)
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = [int(line.split()[4]) for line in done.stdout.splitlines() if line.startswith('owner')]
    assert len(rounds) == 5 and min(rounds), done.stdout
    links = [line.split() for line in done.stdout.splitlines() if line.startswith('link')]
    assert all(int(words[2]) and int(words[4]) for words in links), done.stdout
