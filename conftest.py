# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Lets pytest be run by itself: tests of verbs get a device (`simhca run --private`), and all can be run under a sanitizer.
It begins anew for that, by tests/suites/part.py, which says what is in the environment then.

This is the only conftest.py. What tests ask for is in tests/fixtures.
"""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent
ON_A_DEVICE = ROOT / "tests" / "python"
BEGUN = "SIMHCA_TEST_BEGUN"
os.environ.setdefault("SIMHCA_BUILD", str(ROOT / "build"))
# Programs that tests start use modules of these, too.
os.environ["PYTHONPATH"] = ":".join(str(ROOT / "tests" / suite) for suite in ("daemon", "clients", "python"))
# What leads programs to the device, if this process has one.
DEVICE = {name: os.environ[name] for name in ("SIMHCA_RUNTIME_DIR", "IBV_DRIVERS", "RDMAV_DRIVERS", "LD_PRELOAD")
          if "SIMHCA_RUNTIME_DIR" in os.environ and name in os.environ}

# A failed assertion says of what values, also in the modules that files of tests share.
pytest.register_assert_rewrite(*{path.stem for path in ROOT.glob("tests/*/*.py") if not path.stem.startswith("test_")})
pytest_plugins = ["pairwise", *(f"fixtures.{path.stem}" for path in sorted(ROOT.glob("tests/fixtures/[a-z]*.py")))]


def pytest_addoption(parser):
    group = parser.getgroup("simhca")
    group.addoption("--under", choices=("asan", "tsan", "valgrind", "shared_memory"),
                    help="a daemon, and with asan libraries, of build-asan or build-tsan; a daemon under valgrind, or with "
                         "--shared-memory on")
    group.addoption("--device", metavar="OPTIONS",
                    help="those of `simhca run` for the device of tests/python, as '--link-layer ib'")


def needs_device(config):
    """Whether tests of verbs are asked for, and nobody has given them a device."""
    paths = [pathlib.Path(config.invocation_params.dir, word.split("::")[0]).resolve() for word in config.args]
    return "SIMHCA_RUNTIME_DIR" not in os.environ and any(
        path.is_relative_to(ON_A_DEVICE) or ON_A_DEVICE.is_relative_to(path) for path in paths)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for mark in item.iter_markers("private_memory"):
        if "SIMHCA_TEST_SHARED_MEMORY" in os.environ:
            pytest.skip(mark.args[0])
    # The device is that of tests of verbs: what others start has none of it.
    if item.path.is_relative_to(ON_A_DEVICE):
        os.environ.update(DEVICE)
    else:
        for name in DEVICE:
            os.environ.pop(name, None)


def pytest_terminal_summary(terminalreporter):
    import tables

    if tables.text():
        terminalreporter.write_line("\n" + tables.text())


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    under = config.getoption("under")
    options = config.getoption("device") or ""
    device = needs_device(config)
    if BEGUN in os.environ:
        del os.environ[BEGUN]  # what tests start is for itself
        return
    if config.option.collectonly or not (device or under):
        return
    argv = [sys.executable, str(ROOT / "tests" / "suites" / "part.py"), "--set", f"{BEGUN}=1"]
    argv += ["--under", under] if under else []
    argv += [f"--device={options}"] if device else []
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    os.execv(sys.executable, [*argv, "pytest", *config.invocation_params.args])
