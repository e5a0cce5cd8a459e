# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""part.py, in a tree that is made up: what it runs again, what it leaves, and that it leaves no process."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FAILS_ONCE = """
import os
def test_good(): pass
def test_at_first():
    assert os.path.exists("{0}"), open("{0}", "w").close()
"""


class Tree:
    def __init__(self, root):
        self.root = root
        self.logs = root / "build" / "test-logs"
        self.part = root / "tests" / "suites" / "part.py"
        self.part.parent.mkdir(parents=True)
        shutil.copy(HERE / "part.py", self.part)

    def tests(self, text):
        (self.root / "test_it.py").write_text(text)

    def argv(self, *options):
        return [sys.executable, self.part, "--name", "it", *options, "pytest", self.root / "test_it.py"]

    def __call__(self, *options, **environment):
        return subprocess.run(self.argv(*options), env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True,
                              timeout=60, check=False)

    def again(self, *options):
        return self(*options, SIMHCA_TEST_AGAIN="1")

    def cases(self, name):
        return [case.get("name") for case in xml.parse(self.logs / f"{name}.xml").getroot().iter("testcase")]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_what_failed_is_run_again(tree):
    """Each time the same tests, and no others; each has a report of its own."""
    tree.tests(FAILS_ONCE.format(tree.root / "once"))
    first = tree()
    assert first.returncode == 1 and "test_at_first" in first.stdout
    assert tree.cases("it") == ["test_good", "test_at_first"]
    for number in 1, 2, 3:
        assert tree.again().returncode == 0
        assert tree.cases(f"it-again-{number}") == ["test_at_first"]
    assert tree().returncode == 0 and not list(tree.logs.glob("it-again-*"))


@pytest.mark.parametrize("why, text", [
    ("11 tests have failed", "import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test(n): assert 0"),
    ("the device has ended", "import pytest\ndef test(): assert 0\ndef test_end(): pytest.exit('x', 70)"),
    ("it did not come to its end", "import os\ndef test(): os._exit(3)")])
def test_what_is_not_run_again(tree, why, text):
    tree.tests(text)
    assert tree().returncode != 0
    again = tree.again()
    assert again.returncode == 1 and f"it is not run again: {why}" in again.stdout


def test_what_it_costs(tree):
    """Also what a process has used that its parent has not waited for."""
    tree.tests("""
import subprocess
def test():
    subprocess.run(["sh", "-c", "setsid python3 -c 'import time; any(time.process_time() > 1 for _ in iter(int, 1))' & "])
""")
    assert tree().returncode == 0
    user, system, faults = map(float, (tree.logs / "it.cost").read_text().split())
    assert user + system > 1 and faults > 1000


def test_a_limit(tree):
    """What is not done has no report, and is not run again."""
    tree.tests("import time\ndef test(): time.sleep(100)")
    done = tree("--limit", "3")
    assert done.returncode == 1 and "it: not done after 3 s" in done.stdout
    assert not (tree.logs / "it.xml").exists()
    assert tree.again().returncode == 1


def test_a_report(tree):
    """Whoever has written it: the tests have passed. Warnings are none."""
    tree.tests("""
import os
def test():
    path = os.environ["ASAN_OPTIONS"].split("log_path=")[1].split(":")[0]
    open(path + ".1", "w").write("--1-- a warning\\n")
    open(path + ".2", "w").write("==2==ERROR: AddressSanitizer: x\\n")
""")
    assert tree("--under", "asan_of_ours").returncode == 1
    report, = tree.logs.glob("it.report.*")
    assert report.name == "it.report.it.asan.2" and "AddressSanitizer" in report.read_text()
    assert tree.cases("it") == ["test"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left(tree, number):
    """Also of those that have left their group, and their parents."""
    pid = tree.root / "pid"
    tree.tests(f"""
import subprocess, time
def test():
    subprocess.run(["sh", "-c", "setsid sleep 1000 & echo $! >{pid}"])
    time.sleep(100)
""")
    with subprocess.Popen(tree.argv()) as part:
        deadline = time.monotonic() + 30
        while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        sleeper = int(pid.read_text())
        os.kill(sleeper, 0)
        part.send_signal(number)
        assert part.wait(40) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)


def test_no_process_is_left_by_one_that_ends(tree):
    pid = tree.root / "pid"
    tree.tests(f"""
import subprocess
def test():
    subprocess.run(["sh", "-c", "setsid sleep 1000 & echo $! >{pid}"])
""")
    assert tree().returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
