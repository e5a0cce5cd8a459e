# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An installed tree: other build systems find it, it runs from where it lies, its headers stand alone."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SIMHCA_BUILD", ROOT / "build"))
CMAKE = os.environ.get("SIMHCA_CMAKE", "cmake")
LIBDIR = os.environ.get("SIMHCA_LIBDIR", "lib")


def run(*arguments, status=0, **changes):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SIMHCA_", "LD_", "IBV_", "RDMAV_"))}
    done = subprocess.run([str(argument) for argument in arguments], text=True, timeout=120,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment | {name: str(value) for name, value in changes.items()},
                          check=False)
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def prefix():
    """Staged below a directory for packagers, under a prefix that the build was not configured for."""
    with tempfile.TemporaryDirectory(prefix="simhca-install-") as directory:
        run(CMAKE, "--install", BUILD, "--prefix", "/opt/device", DESTDIR=directory)
        yield pathlib.Path(directory) / "opt" / "device"


@pytest.fixture(scope="module")
def libdir(prefix):
    return prefix / LIBDIR


def test_runs_from_where_it_lies(prefix):
    if not shutil.which("ibv_devices"):
        pytest.skip("no ibv_devices here: ibverbs-utils is not installed")
    said = run(prefix / "bin" / "simhca", "run", "--private", "--", "ibv_devices")
    assert "simhca0" in said


def test_one_object_under_all_names(libdir):
    plugin, = (libdir / "libibverbs").iterdir()
    library = libdir / "libsimhca.so.1.0.0"
    assert library.is_file() and not library.is_symlink()
    assert os.readlink(libdir / "libsimhca.so.1") == library.name and os.readlink(plugin) == f"../{library.name}"


@pytest.mark.parametrize("library, file", [("libsimhca.so.1", "simhca"), ("libsimhca-cq.so.1", "libsimhca-cq1")])
def test_debian_knows_all_symbols(libdir, library, file):
    said = run("nm", "-D", "--defined-only", "--format=posix", libdir / library)
    symbols = {line.split()[0].split("@")[0] for line in said.splitlines()}
    known = (ROOT / "debian" / f"{file}.symbols").read_text()
    assert symbols == set(re.findall(r"^ ([\w.]+)@", known, re.M))


def test_binaries_are_bound_when_loaded(prefix, libdir):
    binaries = [prefix / "bin" / "simhca", prefix / "bin" / "simhcad",
                libdir / "simhca" / "libsimhca-preload.so", libdir / "libsimhca.so.1",
                libdir / "libsimhca-cq.so.1"]
    for binary in binaries:
        said = run("readelf", "--wide", "--dynamic", "--program-headers", binary)
        assert "BIND_NOW" in said and "GNU_RELRO" in said, binary
        assert "RPATH" not in said and "RUNPATH" not in said, binary


def test_documents(prefix):
    documents = prefix / "share" / "doc" / "simhca"
    for name in ("COPYING", "LICENSES/GPL-2.0-only.txt", "LICENSES/Linux-OpenIB.txt", "README.md",
                 "Documentation/errors.md"):
        assert (documents / name).is_file(), name


def test_links_of_documents(prefix):
    """To what is installed, or to where the sources are read, and there to what they have."""
    documents = prefix / "share" / "doc" / "simhca"
    elsewhere = re.search("^SIMHCA_SOURCE_URL:STRING=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
    pages = sorted(documents.rglob("*.md"))
    assert len(pages) > 20
    here = there = 0
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if link.startswith(elsewhere):
                assert (ROOT / link[len(elsewhere) + 1:]).exists(), f"{page}: {link}"
                there += 1
            elif "://" not in link:
                assert (page.parent / link).exists(), f"{page}: {link}"
                here += 1
    assert here > 100 and there > 50


@pytest.mark.parametrize("place, word", [
    ("bash-completion/completions/simhca", "complete -F"),
    ("zsh/site-functions/_simhca", "#compdef simhca"),
    ("fish/vendor_completions.d/simhca.fish", "complete -c simhca"),
])
def test_completion_is_where_shells_look(prefix, place, word):
    assert word in (prefix / "share" / place).read_text()


def test_user_unit(prefix):
    """Off until a user asks for it; it starts the daemon of this tree."""
    unit = (prefix / "lib" / "systemd" / "user" / "simhcad.service").read_text()
    command = re.search("^ExecStart=(.*)$", unit, re.M)[1]
    assert command.endswith("/bin/simhcad") and "Type=notify" in unit
    assert not list(prefix.rglob("*.wants"))


# ------------------------------------------------------------------------ build systems

EXAMPLES = ("fast_reg", "storage_server", "cq_callbacks")


def linked(program, libdir):
    """Runs with our library, on any machine: as far as its usage, or as to miss a device."""
    says, status = ("no device", 1) if program.name == "fast_reg" else ("Usage", 0)
    assert says in run(program, "--help", LD_LIBRARY_PATH=libdir, status=status)


def test_pkg_config(prefix, libdir, tmp_path):
    flags = run("pkg-config", "--cflags", "--libs", "simhca",
                PKG_CONFIG_PATH=libdir / "pkgconfig").split()
    said = run("pkg-config", "--variable=prefix", "simhca", PKG_CONFIG_PATH=libdir / "pkgconfig")
    assert pathlib.Path(said.strip()).resolve() == prefix.resolve()
    for name in EXAMPLES:
        run("cc", "-D_GNU_SOURCE", "-pthread", "-o", tmp_path / name,
            ROOT / "examples" / f"{name}.c", *flags)
        linked(tmp_path / name, libdir)


def test_pkg_config_of_callbacks(libdir, tmp_path):
    """Their own library, without direct verbs."""
    flags = run("pkg-config", "--cflags", "--libs", "simhca-cq", PKG_CONFIG_PATH=libdir / "pkgconfig").split()
    assert "-lsimhca" not in flags
    run("cc", "-D_GNU_SOURCE", "-pthread", "-o", tmp_path / "cq_callbacks", ROOT / "examples" / "cq_callbacks.c", *flags)
    linked(tmp_path / "cq_callbacks", libdir)


def test_cmake_package(prefix, libdir, tmp_path):
    run(CMAKE, "-G", "Ninja", "-S", ROOT / "examples", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", tmp_path)
    for name in EXAMPLES:
        linked(tmp_path / name, libdir)


# ------------------------------------------------------------------------------ headers

LANGUAGES = [("c", "c11", "cc"), ("c++", "c++17", "c++")]


@pytest.mark.parametrize("language, standard, compiler", LANGUAGES)
def test_each_header_alone(prefix, language, standard, compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    include = prefix / "include"
    headers = sorted(path.relative_to(include) for path in include.rglob("*.h"))
    assert [str(header) for header in headers] == ["infiniband/simhcadv.h", "simhca/cq.h",
                                                   "simhca/simhca-abi-reason.h"]
    for header in headers:
        source = tmp_path / "alone"
        # Twice: it guards itself.
        source.write_text(f"#include <{header}>\n" * 2)
        run(compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic",
            "-Werror", "-fsyntax-only", "-I", include, source)
