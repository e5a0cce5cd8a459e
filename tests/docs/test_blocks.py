# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
The commands of README.md, Documentation/ and the man pages are typed as they stand, page by page, and what they print is
what the page shows, but for numbers. A block that is not commands, or that cannot be run here, has a comment above it:

    <!-- not run: REASON -->

Text between `$ ` lines is the output of the command above; "..." stands for what is left out. <!-- before: COMMAND --> is a
command that a page does not show; after <!-- file: NAME --> the block is a script, which is written there. Commands without
output below them have to succeed.
"""
import collections
import os
import re
import subprocess

import pytest

from session import BUILD, ROOT, Session, agrees

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "Documentation").glob("*.md"))]
MANUALS = sorted((ROOT / "man").glob("*.[1-8]"))
COMMENT = re.compile(r"^(?:<!-- |\.\\\" )(not run|before|file): (.*?)(?: -->)?$")

Block = collections.namedtuple("Block", "line lines reason")


def writing(name, lines):
    """The commands that write a script."""
    return [f"$ cat >{name} <<'END OF {name}'", *("> " + line for line in [*lines, f"END OF {name}"]), f"$ chmod +x {name}"]


def of_markdown(lines):
    """Each block of a page, fenced or indented, and each command that is to come before."""
    reason, file, number = None, None, 0
    while number < len(lines):
        line = lines[number]
        if found := COMMENT.match(line):
            if found[1] == "before":
                yield Block(number + 1, ["$ " + found[2]], None)
            elif found[1] == "file":
                file = found[2]
            else:
                reason = found[2]
        elif line.startswith("<!-- quotes "):
            reason = "a quotation, which scripts/check-docs compares"
        elif line.startswith("```"):
            end = next(n for n in range(number + 1, len(lines)) if lines[n].startswith("```"))
            inside = lines[number + 1:end]
            yield Block(number + 1, writing(file, inside) if file else inside, reason)
            reason, file, number = None, None, end
        elif line.startswith("    ") and number and not lines[number - 1].strip():
            end = next((n for n in range(number, len(lines)) if lines[n].strip() and not lines[n].startswith("    ")),
                       len(lines))
            yield Block(number + 1, [text[4:] for text in lines[number:end]], reason)
            reason, number = None, end - 1
        elif line.strip():
            reason = None
        number += 1


def unescaped(text):
    for this, that in (r"\(dq", '"'), (r"\(aq", "'"), (r"\-", "-"), (r"\e", "\\"), (r"\&", ""):
        text = text.replace(this, that)
    return text


def of_manual(lines):
    """The examples of a man page: .Dl, and what is between .Bd -literal and .Ed."""
    reason, block = None, None
    for number, line in enumerate(lines, 1):
        if found := COMMENT.match(line):
            if found[1] == "before":
                yield Block(number, ["$ " + found[2]], None)
            else:
                reason = found[2]
        elif line.startswith(".Dl "):
            yield Block(number, [unescaped(line[4:])], reason)
            reason = None
        elif line.startswith(".Bd -literal"):
            block = []
        elif line == ".Ed" and block is not None:
            yield Block(number, block, reason)
            reason, block = None, None
        elif block is not None:
            block.append(unescaped(line))


def blocks_of(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    return list((of_markdown if page.suffix == ".md" else of_manual)(lines))


def commands_of(block):
    """[(command, the lines that it prints)]; a command goes on in lines that begin with "> "."""
    commands = []
    for line in block.lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif line.startswith("> ") and commands and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[2:]}", [])
        elif commands:
            commands[-1][1].append(line)
    return [(command, output) for command, output in commands]


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """For pages that need pkg-config."""
    prefix = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    return prefix


NAMES = [str(page.relative_to(ROOT)) for page in PAGES + MANUALS]


@pytest.mark.parametrize("name", [name for name in NAMES if blocks_of(ROOT / name)])
def test_page(name, request):
    """Each block is run, or says why not."""
    blocks = blocks_of(ROOT / name)
    for block in blocks:
        assert block.reason or block.lines[0].startswith("$ "), \
            f"{name}:{block.line}: neither commands (`$ `) nor a comment above that says why it is not run"
    if all(block.reason for block in blocks):
        return
    with Session() as shell:
        if any("$INSTALLED" in line for block in blocks for line in block.lines):
            shell.run(f"INSTALLED={request.getfixturevalue('installed')}")
        for block in blocks:
            for command, shown in [] if block.reason else commands_of(block):
                where = f"{name}:{block.line}: {command}"
                status, printed = shell.run(command)
                if any(line.strip() for line in shown):
                    assert agrees(shown, printed.splitlines()), f"{where}\nprints:\n{printed}\nand is shown to print:\n" + "\n".join(shown)
                else:
                    assert status == 0, f"{where}\nfailed ({status}):\n{printed}"


def test_how_many_are_not_run(record_property):
    """They are counted, by the reason that is given."""
    reasons = collections.Counter(block.reason for name in NAMES for block in blocks_of(ROOT / name) if block.reason)
    run = sum(not block.reason for name in NAMES for block in blocks_of(ROOT / name))
    for reason, count in reasons.items():
        record_property(reason, count)
    print(f"{run} blocks are run, {sum(reasons.values())} are not:", *reasons.most_common(), sep="\n")
    assert run > 30


def test_recording():
    """The moving picture of README.md is what its commands print today."""
    subprocess.run([ROOT / "scripts/record", "--check"], check=True, env=os.environ | {"SIMHCA_BUILD": str(BUILD)})


def test_messages_when_the_device_is_not_seen():
    """README.md names what programs say then."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    with Session() as shell:
        for variable in "LD_PRELOAD", "IBV_DRIVERS":
            _, printed = shell.run(f"simhca run -- env -u {variable} ibv_devinfo")
            assert f"`{printed.strip()}`" in page, printed
