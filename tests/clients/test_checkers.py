# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Programs under gdb, valgrind, AddressSanitizer and ThreadSanitizer: they find mistakes of the program, no more."""

import os
import shutil
import subprocess

import pytest

from common import BUILD, HERE, SIMHCA

ROOT = HERE.parent.parent
LIB = BUILD / "lib"
ARRIVES = ["arrives_by_write_and_read", "arrives_in_another_thread"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """program(FLAG...): tests/programs/arrives.c, built with these flags."""
    made = {}

    def build(*flags):
        if flags not in made:
            target = tmp_path_factory.mktemp("checkers") / "arrives"
            done = subprocess.run(
                ["gcc", "-g", "-O1", "-std=gnu11", "-D_GNU_SOURCE", "-pthread", *flags,
                 f"-I{BUILD}/include", f"-I{ROOT}/kernel-abi", "-o", target,
                 ROOT / "tests" / "programs" / "arrives.c", f"-L{LIB}", f"-Wl,-rpath,{LIB}",
                 "-lsimhca", "-libverbs"],
                capture_output=True, text=True, check=False)
            if done.returncode and "cannot find" in done.stderr:
                pytest.skip("this gcc lacks the library for " + " ".join(flags))
            assert done.returncode == 0, done.stderr
            made[flags] = target
        return made[flags]

    return build


def run(*command):
    """On a device of its own, with no variable that is about simhca."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMHCA_", "ASAN_", "TSAN_"))}
    # The programs close nothing.
    environment["ASAN_OPTIONS"] = "detect_leaks=0"
    return subprocess.run([SIMHCA, "run", "--private", "--", *command], env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=180,
                          stderr=subprocess.STDOUT, check=False)


def needs(tool):
    if not shutil.which(tool):
        pytest.skip(f"no {tool} here")


@pytest.mark.parametrize("test", ARRIVES)
def test_valgrind(program, test):
    """What the device has written is no uninitialised memory."""
    needs("valgrind")
    done = run("valgrind", "-q", "--error-exitcode=99", program(), test)
    assert (done.returncode, done.stdout) == (0, "")


def test_valgrind_finds_a_mistake(program):
    needs("valgrind")
    done = run("valgrind", "-q", "--error-exitcode=99", program(), "mistake_not_written")
    assert done.returncode == 99 and "uninitialised" in done.stdout


@pytest.mark.parametrize("test", ARRIVES)
def test_address_sanitizer(program, test):
    """gcc's, which wants to be the first library."""
    done = run(program("-fsanitize=address,undefined"), test)
    assert (done.returncode, done.stdout) == (0, "")


def test_address_sanitizer_below_a_shell(program):
    """Whatever a makefile sets."""
    done = run("sh", "-c", 'ASAN_OPTIONS=detect_leaks=0:color=never exec "$0" "$1"',
               program("-fsanitize=address,undefined"), ARRIVES[0])
    assert (done.returncode, done.stdout) == (0, "")


def thread_sanitizer(program, test):
    """Without the kernel's address layouts that gcc 12's does not know."""
    return run("setarch", "-R", program("-fsanitize=thread"), test)


@pytest.mark.parametrize("test", ARRIVES)
def test_thread_sanitizer(program, test):
    """A message orders what two threads do."""
    done = thread_sanitizer(program, test)
    assert (done.returncode, done.stdout) == (0, "")


def test_thread_sanitizer_finds_a_mistake(program):
    done = thread_sanitizer(program, "mistake_race")
    assert done.returncode and "data race" in done.stdout


def gdb(program, *commands):
    needs("gdb")
    words = [word for command in (*commands, "run") for word in ("-ex", command)]
    return run("gdb", "-q", "-batch", *words, "-ex", "backtrace", "--args", program(), ARRIVES[0])


def test_gdb(program):
    assert "exited normally" in gdb(program).stdout


def test_gdb_stops_in_the_middle(program):
    said = gdb(program, "break arrives.c:look").stdout
    assert "Breakpoint 1, " in said and "in main (" in said
