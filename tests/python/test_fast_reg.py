# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The direct verbs: each TEST() of tests/programs on its own, the example, and what the library shows
to the linker.
"""
import os
import re
import subprocess

import pytest

import programs
from harness import REPO

LIB = os.path.join(programs.BUILD, 'lib')
SHORT = os.path.join(REPO, 'examples', 'fast_reg.c')
SERVER = os.path.join(REPO, 'examples', 'storage_server.c')
# Each library's header, and the version of what it exports.
HEADERS = {'simhca': (os.path.join(REPO, 'providers', 'simhca', 'simhcadv.h'), 'SIMHCA_1.0'),
           'simhca-cq': (os.path.join(REPO, 'libsimhca-cq', 'simhca', 'cq.h'), 'SIMHCA_CQ_1.0')}


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def names_in(source):
    return re.findall(r'^TEST\((\w+)\)', read(programs.C_PROGRAMS, source), re.M)


# On devices of their own: test_cq_callbacks.py, test_cq_events.py.
ELSEWHERE = {'cq_callbacks_private.c', 'event_at_arm.c', 'notify_after_death.c'}
SOURCES = sorted({name for name in os.listdir(programs.C_PROGRAMS) if name.endswith('.c')}
                 - ELSEWHERE)
TESTS = [(source, name) for source in SOURCES for name in names_in(source)]


@pytest.fixture(scope='module')
def program(tmp_path_factory):
    """program(source): its path, compiled once."""
    made = {}

    def make(source):
        if source not in made:
            made[source] = programs.compiled(source, tmp_path_factory.mktemp('dv'), '-std=gnu11',
                                             '-Werror', dv=True)
        return made[source]

    return make


@pytest.mark.parametrize('source, name', TESTS, ids=[f'{s[:-2]}-{n}' for s, n in TESTS])
def test_dv(program, source, name):
    programs.run_c(program(source), name)


def test_in_every_source():
    """In all that have dv.h's main()."""
    assert {source for source, _ in TESTS} == {
        source for source in SOURCES
        if re.search(r'^#include "(dv|loop|callbacks)\.h"', read(programs.C_PROGRAMS, source), re.M)}
    assert len(TESTS) == len(set(TESTS))


@pytest.mark.parametrize('arguments', [[], ['--depth', '1'], ['-d', '16', '-p', '1'],
                                       ['-d', '2', '-p', '64']], ids=' '.join)
def test_example(program, arguments):
    said = programs.run_c(program(SERVER), '--cycles', '1000', *arguments)
    assert said.startswith('1000 cycles') and 'refused, as it must be' in said


@pytest.mark.parametrize('arguments', [['--cycles', '0'], ['--depth', '65'], ['--pages', 'x'],
                                       ['--no-such'], ['word']], ids=' '.join)
def test_example_options(program, arguments):
    path = program(SERVER)
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr


def test_short_example(program):
    said = programs.run_c(program(SHORT)).splitlines()
    assert [line.split('"')[1] for line in said[:-1]] == ['turn 0', 'turn 1', 'turn 2']
    assert said[-1] == 'and once more: remote access error'


@pytest.mark.parametrize('source', [SHORT, SERVER], ids=os.path.basename)
def test_example_without_a_device(program, source):
    """It says how to be started."""
    done = subprocess.run([program(source)], env=programs.outside(), capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1 and 'simhca run' in done.stderr


# ------------------------------------------------------------------------ library and header

def public_calls(library):
    """Functions that its header declares, without the inline ones."""
    return set(re.findall(r'^(?!static)\w[\w\s*]*?\b(simhcadv_\w+)\(', read(HEADERS[library][0]), re.M))


def inline_calls():
    return set(re.findall(r'^static inline [\w\s*]*?\b(simhcadv_\w+)\(', read(HEADERS['simhca'][0]), re.M))


@pytest.mark.parametrize('library', HEADERS)
def test_symbols(library):
    """The library shows what the header declares, versioned, and nothing else."""
    said = subprocess.run(['nm', '-D', '--defined-only', os.path.join(LIB, f'lib{library}.so.1')],
                          capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[2] for line in said.splitlines() if line.split()[1] == 'T'}
    version = HEADERS[library][1]
    assert symbols == {f'{name}@@{version}' for name in public_calls(library)}


def test_one_object_under_two_names():
    plugins = [name for name in os.listdir(LIB) if re.fullmatch(r'libsimhca-rdmav\d+\.so', name)]
    assert len(plugins) == 1
    assert os.path.samefile(os.path.join(LIB, plugins[0]), os.path.join(LIB, 'libsimhca.so.1'))


@pytest.mark.parametrize('name', sorted(public_calls('simhca') | public_calls('simhca-cq') | inline_calls()))
def test_man_page(name):
    """One for each call: with its prototype, and with its errors unless it cannot fail."""
    shared = {'simhcadv_query_odp': 'simhcadv_query_mr'}
    page = read(REPO, 'man', f'{shared.get(name, name)}.3')
    assert re.search(rf'^\.Fo {name}$', page, re.M)
    assert '.Sh ERRORS' in page or name == 'simhcadv_is_supported'
    assert name in read(REPO, 'man', 'simhcadv.7')


@pytest.mark.parametrize('header', ['infiniband/simhcadv.h', 'simhca/cq.h'])
@pytest.mark.parametrize('compiler, standard', [('cc', 'c11'), ('c++', 'c++11')])
def test_header_alone(tmp_path, compiler, standard, header):
    """The header needs no other one before it, in C and in C++."""
    if subprocess.run(['sh', '-c', f'command -v {compiler}'], capture_output=True,
                      check=False).returncode:
        pytest.skip(f'no {compiler} here')
    file = tmp_path / ('exclusive.c' if compiler == 'cc' else 'alone.cc')
    file.write_text(f'#include <{header}>\nint main(void) {{ return 0; }}\n')
    programs.compiled(str(file), tmp_path, f'-std={standard}', '-Werror', '-U_GNU_SOURCE',
                      dv=True, compiler=compiler)
