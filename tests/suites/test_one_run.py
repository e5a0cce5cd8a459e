# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Suites in one run of pytest (conftest.py, pytest.ini): what they share, and what they do not."""
import ast
import collections
import os
import pathlib
import subprocess
import sys

import pytest

import common

TESTS = pathlib.Path(__file__).resolve().parents[1]


def run(*arguments):
    """The lines that pytest prints."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], stdout=subprocess.PIPE,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def files(*patterns):
    """{stem: the files of that name}"""
    found = collections.defaultdict(set)
    for pattern in patterns:
        for path in TESTS.parent.glob(pattern):
            found[path.stem].add(path.resolve())
    return found


def test_modules_have_names_of_their_own():
    shared = {name: paths for name, paths in files("tests/*/*.py", "bench/*.py").items()
              if not name.startswith("test_") and TESTS / "fixtures" not in {path.parent for path in paths}}
    assert not [paths for name, paths in shared.items() if len(paths) > 1 or name in sys.stdlib_module_names]


def test_files_of_tests_may_have_the_same_name():
    pytest.importorskip("pyverbs")
    twice = [path for paths in files("tests/*/test_*.py").values() if len(paths) > 1 for path in sorted(paths)]
    listed = run("--co", *twice)
    assert len(twice) > 2
    assert {line.split("::")[0] for line in listed if "::" in line} == {str(path.relative_to(TESTS.parent)) for path in twice}


def imported(path):
    """Words of the names that a file imports, and of the modules that it imports them from."""
    for node in ast.walk(ast.parse(path.read_text(), path)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]:
                yield from name.split(".")


def test_files_of_tests_are_not_imported():
    """pytest loads each of them by its path, under a name of its own: an import would load it a second time."""
    tests = {path.stem for path in TESTS.glob("**/test_*.py")}
    imports = {str(path.relative_to(TESTS)): set(imported(path)) for path in TESTS.glob("**/*.py")}
    assert "common" in imports["suites/test_one_run.py"]
    assert not {path: words & tests for path, words in imports.items() if words & tests}


def test_a_failed_assertion_shows_its_values():
    """Also one of a module that tests share."""
    with pytest.raises(AssertionError, match="assert 3 == 0"):
        common.expect_success(common.Result(["false"], 3, "", ""))


def test_no_device_is_seen():
    """tests/python alone has the device of the run: what other tests start is told nothing of it."""
    assert "SIMHCA_RUNTIME_DIR" not in os.environ and "simhca" not in os.environ.get("LD_PRELOAD", "")


def test_beside_tests_of_verbs():
    pytest.importorskip("pyverbs")
    last = run(f"{TESTS}/clients/test_devices.py::test_ibv_devinfo", f"{TESTS}/python/test_pd.py",
               f"{TESTS}/suites/test_one_run.py::test_no_device_is_seen")[-1]
    assert " passed" in last and "skipped" not in last
