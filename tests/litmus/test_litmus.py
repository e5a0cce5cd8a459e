# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Memory orders: small programs in C11, each the atomic accesses of one protocol, which herd7 checks
under RC11, the model of C11 that compilers keep to on every CPU. The comments of each name

	P0 FILE FUNCTION: CODE		the access of P0 in the tree, in the order of the program;
					"- any" for what may be any access of that order
	mutant NAME: OLD => NEW		a weaker order, with which herd7 must find what goes wrong

Without herd7, which is in sid alone, only the former are looked at: a change of the code that the
program does not follow fails. SIMHCA_HERD is a command that runs herd7 elsewhere.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = sorted(path.stem for path in HERE.glob("*.litmus"))
HERD = shlex.split(os.environ.get("SIMHCA_HERD", "herd7"))
needs_herd = pytest.mark.skipif(not shutil.which(HERD[0]),
                                reason="no herd7 here: scripts/test platforms runs it in sid")
# What the calls of pthread mutexes are, as accesses.
MUTEX = {"pthread_mutex_trylock": "acquire", "pthread_mutex_unlock": "release"}


def text_of(name):
    return (HERE / f"{name}.litmus").read_text()


def mutants(name):
    return re.findall(r"^\(\* mutant (\w+): (.+) => (.*) \*\)$", text_of(name), re.M)


def spaces(text):
    return re.sub(r"\s+", " ", text)


def body(path, function):
    """A function of the tree, from its name to the brace that ends it."""
    found = re.search(rf"^\w[^\n;]*\b{function}\([^;{{]*\)\n\{{.*?^\}}$", (ROOT / path).read_text(),
                      re.M | re.S)
    assert found, f"{path} has no function {function}"
    return spaces(found[0])


def order(access):
    """Of success, where there are two; sequential consistency is what is not said."""
    for call, meant in MUTEX.items():
        if call in access:
            return meant
    said = re.findall(r"memory_order_(\w+)", access)
    return said[0] if said else "seq_cst"


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_what_the_code_does(name):
    """Each access of a program is in the code, with that order."""
    text = text_of(name)
    program = re.sub(r"\(\*.*?\*\)", "", text, flags=re.S)
    code = re.findall(r"^\(\* (P\d) (\S+) (\w+): (.+) \*\)$", text, re.M)
    for thread in re.findall(r"^(P\d)\(", program, re.M):
        accesses = re.findall(r"\batomic_\w+\(.*?\)",
                              re.search(rf"^{thread}\(.*?^\}}$", program, re.M | re.S)[0])
        there = [(path, function, line) for of, path, function, line in code if of == thread]
        assert [order(access) for access in accesses] == [order(line) for *_, line in there]
        for path, function, line in there:
            assert path == "-" or spaces(line) in body(path, function), f"{path}: {function} has no {line}"


def mutant_of(name, which):
    """Its text; the name in the first line is NAME-WHICH."""
    old, new = next((old, new) for mutant, old, new in mutants(name) if mutant == which)
    comments, program = re.fullmatch(r"(.*\*\)\n)(.*)", text_of(name), re.S).groups()
    assert program.count(old) == 1, f"{name}: {old}"
    return comments.replace(f"C {name}\n", f"C {name}-{which}\n") + program.replace(old, new)


@pytest.fixture(scope="session")
def wrong(tmp_path_factory):
    """wrong(NAME): whether a program, or mutant, can end as its last line says, or has a race."""
    directory = tmp_path_factory.mktemp("litmus")
    texts = {name: text_of(name) for name in PROGRAMS}
    texts |= {f"{name}-{which}": mutant_of(name, which)
              for name in PROGRAMS for which, _, _ in mutants(name)}
    for name, text in texts.items():
        (directory / f"{name}.litmus").write_text(text)
    done = subprocess.run([*HERD, "-model", "rc11.cat",
                           *(directory / f"{name}.litmus" for name in texts)], text=True,
                          timeout=300, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    results = {name: said for said, name in re.findall(
        r"^(Test \S+ .*?^Observation (\S+) .*?$)", done.stdout, re.M | re.S)}

    def judge(name):
        said = results.get(name, done.stdout)
        seen = re.search(rf"^Observation {name} (\w+) (\d+) (\d+)$", said, re.M)
        assert seen and int(seen[2]) + int(seen[3]), said
        return seen[1] != "Never" or "\nFlag " in said

    return judge


@needs_herd
@pytest.mark.parametrize("name", PROGRAMS)
def test_holds(name, wrong):
    assert not wrong(name)


@needs_herd
@pytest.mark.parametrize("mutant", [f"{name}-{which}" for name in PROGRAMS
                                    for which, _, _ in mutants(name)])
def test_mutant_fails(mutant, wrong):
    """With a weaker order herd7 finds the outcome, or a race."""
    assert wrong(mutant)


def test_programs_have_mutants():
    assert PROGRAMS and all(len(mutants(name)) >= 2 for name in PROGRAMS)
