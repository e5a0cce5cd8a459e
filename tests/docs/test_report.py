# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Documentation/performance.md is what scripts/bench --report writes, of a run."""

import json
import platform
import shutil
import subprocess

import pytest

from session import BUILD, ROOT


@pytest.fixture
def copy(tmp_path):
    """Of what the script reads and writes."""
    for name in "scripts", "bench":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "Documentation").mkdir()
    shutil.copy(ROOT / "Documentation/performance.md", tmp_path / "Documentation")
    return tmp_path


def bench(copy, *arguments):
    return subprocess.run([copy / "scripts/bench", *map(str, arguments)], cwd=copy, capture_output=True, text=True, check=False,
                          timeout=600, stdin=subprocess.DEVNULL)


def test_page_is_that_of_the_saved_run(copy):
    page = copy / "Documentation/performance.md"
    before = page.read_text()
    page.write_text("by hand\n")
    assert bench(copy, "--report", "--from", ROOT / "bench/report.json").returncode == 0
    assert page.read_text() == before


def test_one_part_is_measured_and_others_stay(copy):
    done = bench(copy, "--report", "odp", "--build", BUILD)
    assert done.returncode == 0, done.stderr
    before, after = (json.loads((root / "bench/report.json").read_text()) for root in (ROOT, copy))
    odp = after.pop("odp")
    before.pop("odp", None)
    assert after == before
    assert odp["machine"]["kernel"] == f"Linux {platform.release()}" and len(odp["load"]) == 2
    page = (copy / "Documentation/performance.md").read_text()
    assert "## On-demand paging" in page and f"Linux {platform.release()}" in page and odp["machine"]["date"] in page
    value, = (row["value"] for row in odp["tests"] if row["test"] == "ordinary region")
    assert f"| ordinary region | {value:.3g} |" in page or value < 1 or value >= 100


@pytest.mark.parametrize("arguments", [["--from", "x"], ["--report", "--json"], ["--report", "--fast-path", "on"],
                                       ["--report", "--build", "a", "--build", "b"]], ids=" ".join)
def test_wrong_options(copy, arguments):
    done = bench(copy, *arguments)
    assert done.returncode == 2 and "--report" in done.stderr + done.stdout
