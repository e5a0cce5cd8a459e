# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The manual pages: clean for mandoc; of programs one for each subcommand, with the options that --help has; of calls as declared."""

import re
import subprocess

import pytest

from session import BUILD, ROOT

PAGES = sorted((ROOT / "man").glob("*.[18]"))
CALLS = sorted((ROOT / "man").glob("*.3"))
HEADERS = {"infiniband/simhcadv.h": "providers/simhca/simhcadv.h", "simhca/cq.h": "libsimhca-cq/simhca/cq.h"}
# Its own lists of pages may be older than what is installed, or not have it.
NOT_OURS = re.compile("referenced manual not found|mandoc.db|verbatim")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


def subcommands():
    return re.findall(r"^  ([a-z]+) ", output(BUILD / "bin" / "simhca", "--help"), re.M)


@pytest.mark.parametrize("page", [*PAGES, *CALLS, ROOT / "man/simhcadv.7"], ids=lambda page: page.name)
def test_mandoc(page):
    said = output("mandoc", "-T", "lint", "-W", "style", page)
    assert [line for line in said.splitlines() if not NOT_OURS.search(line)] == []
    assert page.read_text().splitlines()[3] == ".Os simhca"  # mdoc(7)


@pytest.mark.parametrize("page", sorted((ROOT / "man").glob("simhca-*.1")), ids=lambda page: page.name)
def test_subcommand_is_named_as_it_is_typed(page):
    """.Nm by itself is the page's name, which nobody types."""
    _, text = page.read_text().split(".Sh SYNOPSIS")
    assert not re.search(r"^\.Nm(?!  *simhcad?\b)", text, re.M)


def of_help(text):
    """{option: its letter and what its value is called}"""
    options = {}
    for letter, name, value in re.findall(r"^  (?:-(\w), )?--([a-z0-9-]+)(?: (\S+))?", text, re.M):
        options[name] = letter, value.lower()
    return options


def of_page(text):
    options = {}
    section = re.search(r"^\.Sh OPTIONS\n(.*?)^\.Sh ", text, re.S | re.M)[1]
    for letter, name, value in re.findall(r"^\.It (?:Fl (\w) , )?(?:Fl )?-([a-z0-9-]+)(?: (?:Ar|Cm) (.*))?$", section, re.M):
        options[name] = letter, re.sub(r" ([|]) |( Ar | Cm )", r"\1", value).lower().replace("...", "..")
    return options


@pytest.mark.parametrize("name", subcommands())
def test_options_of_a_subcommand(name):
    said = output(BUILD / "bin" / "simhca", name, "--help").partition("Options for a daemon")[0]
    page = (ROOT / "man" / f"simhca-{name}.1").read_text()
    assert of_page(page) == of_help(said)


def test_options_of_the_daemon():
    assert of_page((ROOT / "man" / "simhcad.8").read_text()) == of_help(output(BUILD / "bin" / "simhcad", "--help"))


@pytest.mark.skipif(not (BUILD / "bin" / "simhca-device-plugin").exists(), reason="not built: -DSIMHCA_KUBERNETES=ON")
def test_options_of_the_device_plugin():
    of_the_page = of_page((ROOT / "man" / "simhca-device-plugin.8").read_text())
    assert of_the_page == of_help(output(BUILD / "bin" / "simhca-device-plugin", "--help"))


def test_every_page_is_of_a_subcommand():
    assert {page.stem for page in PAGES} == {"simhca", "simhcad", "simhca-device-plugin", *(f"simhca-{name}" for name in subcommands())}
    named = re.findall(r"^\.It Xr simhca-(\w+) 1$", (ROOT / "man" / "simhca.1").read_text(), re.M)
    assert named == subcommands()


def plain(text):
    """C without comments, and with one way to set blanks."""
    return re.sub(r"\s*([(){},;*])\s*", r"\1", " ".join(re.sub(r"/\*.*?\*/", "", text, flags=re.S).split()))


@pytest.mark.parametrize("page", CALLS, ids=lambda page: page.name)
def test_prototypes_and_structs(page):
    """They are those of the header that the page names."""
    text = page.read_text()
    header = plain((ROOT / HEADERS[re.search(r"^\.In (\S+)$", text, re.M)[1]]).read_text())
    prototypes = re.findall(r'^\.Ft "?([^"\n]*)"?\n\.Fo (\w+)\n(.*?)\.Fc$', text, re.M | re.S)
    assert [name for _, name, _ in prototypes] == re.findall(r"^\.Nm (\w+)", text, re.M)
    for returns, name, arguments in prototypes:
        arguments = ", ".join(re.findall(r'^\.Fa "(.*)"$', arguments, re.M))
        assert plain(f"{returns} {name}({arguments})") in header, name
    for struct in re.findall(r"^struct simhcadv_\w+ \{\n.*?^\};", text, re.M | re.S):
        assert plain(struct) in header, struct
