# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
CBMC proves what is written above the gates: functions that judge what programs can write. Each file
here is one proof, about any value of each variable that it declares with ANY(). Its first comment
says, beside what is shown and why that suffices,

    of: PATH                     the header that mutants change; libsimhca/queue/gate.h
    unwind: N                    rounds of loops, plus 1; more would be a failure
    mutant(NAME): SCRIPT         for sed: a rule less. Without it the proof has to fail
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from trees import Tree, chroot

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROOFS = sorted(path.stem for path in HERE.glob("*.c"))
# No undefined behaviour, no number that changes by a conversion, and loops that end.
CHECKS = ["--bounds-check", "--pointer-check", "--signed-overflow-check", "--conversion-check",
          "--undefined-shift-check", "--div-by-zero-check", "--unwinding-assertions"]
# Only what a claim depends on is left of it before it is solved.
QUICK = ["--slice-formula"]
OLDEST = 6  # version
# Of scripts/packages, for that tree. Runs of everything have one image for it and for tests/platforms.
SHORT = os.environ.get("SIMHCA_PLATFORMS") == "short"
GROUPS = ["build", "demo", "proofs"] if SHORT else ["proofs"]


# ---------------------------------------------------------------------------- cbmc: this machine's, or a tree's


def is_here():
    """Whether this machine has one that is new enough."""
    if not shutil.which("cbmc"):
        return False
    said = subprocess.run(["cbmc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    version = re.match(r"(\d+)", said)
    return bool(version) and int(version[1]) >= OLDEST


def of_tree(tree):
    """
    The tree's, by its own loader and with its own libraries: a command inside the tree (`chroot run`) costs more than most
    proofs. What cbmc preprocesses with is this machine's compiler.
    """
    loader, = tree.glob("lib*/ld-linux-*.so.*")
    libraries = [*tree.glob("usr/lib/*-linux-gnu"), tree / "usr" / "lib"]
    return [loader, "--library-path", ":".join(map(str, libraries)), tree / "usr" / "bin" / "cbmc"]


@pytest.fixture(scope="session")
def cbmc():
    """cbmc(*argv): what it says of files."""
    def run(*command):
        return lambda *argv: subprocess.run([*command, *argv], stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT,
                                            check=False, timeout=300)

    if is_here():
        yield run("cbmc")
        return
    possible = chroot("possible", check=False)
    if possible.returncode:
        pytest.skip(f"no cbmc of version {OLDEST} here, and no tree of Debian 13: {possible.stdout.strip()}")
    tree = Tree("trixie", *GROUPS)
    yield run(*of_tree(tree.path))
    tree.remove()


# -------------------------------------------------------------------------------------------------- the proofs


def comment(proof):
    """The first comment that is no licence."""
    text = (HERE / f"{proof}.c").read_text(encoding="utf-8").partition("\n")[2]
    return text[:text.index("*/")]


def setting(proof, name, otherwise):
    """What it says of `name`."""
    found = re.search(rf"^ \* {name}: (.+)$", comment(proof), re.M)
    return found[1] if found else otherwise


def mutants(proof):
    """Names and scripts."""
    return re.findall(r"^ \* mutant\((\w+)\): (.+)$", comment(proof), re.M)


def header(proof):
    """That mutants change."""
    return ROOT / setting(proof, "of", "libsimhca/queue/gate.h")


def explore(cbmc, proof, headers, *options):
    """What CBMC says of a proof, with those headers in place of the sources'."""
    unwind = setting(proof, "unwind", None)
    done = cbmc("-I", str(headers), "-I", str(ROOT / "libsimhca"),
                "-I", str(ROOT / "providers" / "simhca"), "-I", str(ROOT / "kernel-abi"), "-I", str(HERE),
                *QUICK, *options, *(["--unwind", unwind] if unwind else []), str(HERE / f"{proof}.c"))
    assert done.returncode in (0, 10), done.stdout
    return done.stdout


def failures(said):
    """The assertions that fail."""
    return re.findall(r"^\[(.+?)\] .*: FAILURE$", said, re.M)


@pytest.mark.parametrize("proof", PROOFS)
def test_holds(proof, cbmc):
    """For every value, and something was to be shown."""
    said = explore(cbmc, proof, ROOT / "libsimhca", *CHECKS)
    assert not failures(said), said
    assert "VERIFICATION SUCCESSFUL" in said, said
    assert re.search(r"^\[main\.assertion\.\d+\] .*: SUCCESS$", said, re.M), said


@pytest.mark.parametrize("proof", PROOFS)
def test_is_reached(proof, cbmc):
    """What is assumed and let through leaves something: each thing to be shown is reached."""
    said = explore(cbmc, proof, ROOT / "libsimhca", "--cover", "assertion", "--no-standard-checks")
    unreached = re.findall(r"^\[main\.coverage\.\d+\] .*: FAILED$", said, re.M)
    assert not unreached, said


@pytest.mark.parametrize("proof, name, script",
                         [pytest.param(proof, name, script, id=f"{proof}-{name}")
                          for proof in PROOFS for name, script in mutants(proof)])
def test_mutant_fails(proof, name, script, cbmc, tmp_path):
    """A rule less, and CBMC finds a lie that gets through."""
    of = header(proof)
    # Those of libsimhca are included by their room.
    headers = tmp_path / of.parent.relative_to(ROOT / "libsimhca") if ROOT / "libsimhca" in of.parents else tmp_path
    headers.mkdir(parents=True, exist_ok=True)
    for one in of.parent.glob("*.h"):
        shutil.copy(one, headers)
    changed = headers / of.name
    before = changed.read_text(encoding="utf-8")
    # Rules may stand on several lines.
    subprocess.run(["sed", "-z", "-i", script, changed], check=True)
    assert changed.read_text(encoding="utf-8") != before, f"{name}: the script changes nothing"
    said = explore(cbmc, proof, tmp_path, *CHECKS, "--stop-on-fail")
    assert "VERIFICATION FAILED" in said, said
