# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What failing verbs return, errno, and that Documentation/errors.md says so."""
import os
import re

import pytest

import programs
from harness import REPO

ROW = re.compile(r'^\| `(ibv_\w+)\(\)` \| (.*?) \| `(E\w+)` \|', re.M)


@pytest.fixture(scope='module')
def verb_errors(tmp_path_factory):
    return programs.compiled('verb_errors.c', tmp_path_factory.mktemp('errors'))


@pytest.mark.addresses
def test_every_verb(verb_errors):
    """Each returns its error, and sets errno."""
    assert int(programs.run_c(verb_errors, 'alive').split()[0]) > 70


@pytest.mark.addresses
def test_errno_is_kept(c_program):
    """By verbs that succeed."""
    programs.run_c(c_program('errno_kept.c'))


@pytest.mark.parametrize('how', [(), ('extended',), ('as ever',)])
def test_poisoned_completions(c_program, how):
    """SIMHCA_POISON_WC: of a failed completion only four members say something; of others those that mlx5 sets."""
    programs.run_c(c_program('poisoned.c'), *how)


def test_every_verb_without_a_device(verb_errors):
    """The daemon has died: EIO, but of what is wrong in any case."""
    done = programs.private([verb_errors, 'dead'])
    assert int(done.stdout.split()[0]) > 70, done.stdout + done.stderr
    assert 'returned' not in done.stderr, done.stderr


@pytest.mark.once
def test_documentation(verb_errors):
    """The table in errors.md has these cases, with these errors, and no others."""
    tested = [tuple(line.split('|')) for line in programs.run_c(verb_errors, 'list').splitlines()]
    with open(os.path.join(REPO, 'Documentation', 'errors.md'), encoding='utf-8') as page:
        written = ROW.findall(page.read())
    assert sorted(written) == sorted(tested)
