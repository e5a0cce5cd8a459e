# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Fresh trees of Debian releases, by scripts/chroot."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROOT = ROOT / "scripts" / "chroot"
LOGS = pathlib.Path(os.environ.get("SIMHCA_LOGS", ROOT / "build" / "test-logs")) / "platforms"
RELEASES = os.environ.get("SIMHCA_RELEASES", "bookworm trixie sid").split()


def chroot(*arguments, check=True, timeout=1800):
    done = subprocess.run([CHROOT, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
    assert not check or done.returncode == 0, done.stdout
    return done


class Tree:
    """A fresh system of a release, with what groups of scripts/packages name."""

    def __init__(self, release, *groups):
        self.release = release
        # The path is on the last line; what makes an image talks before.
        self.path = pathlib.Path(chroot("new", release, *groups).stdout.splitlines()[-1])

    def command(self, *argv, user=False, online=True, chdir=None, **environment):
        """
        What runs a command in it, by root or a user, to be given to subprocess. Not online, it has a network of its
        own: what needs one says so, and ports are those of no other tree.
        """
        options = ["--user"] if user else []
        options += [] if online else ["--offline"]
        options += ["--chdir", chdir] if chdir else []
        for name, value in environment.items():
            options += ["--env", f"{name}={value}"]
        return [CHROOT, "run", *options, self.path, *argv]

    def run(self, *argv, online=False, check=True, **how):
        return chroot(*self.command(*argv, online=online, **how)[1:], check=check)

    def shell(self, script, *arguments, **how):
        """What a script prints."""
        return self.run("sh", "-euc", script, "sh", *arguments, **how).stdout

    def install(self, *packages, recommends=False):
        self.shell('apt-get -q update >/dev/null; DEBIAN_FRONTEND=noninteractive apt-get -q -y '
                   '-o Acquire::Retries=3 "$@"', "install",
                   *([] if recommends else ["--no-install-recommends"]), *packages, online=True)

    def source(self, directory, user=False):
        """Copies this checkout to a directory of it, which is then root's or the user's."""
        chroot("source", self.path, directory, *(["--user"] if user else []))

    def remove(self):
        chroot("remove", self.path)
