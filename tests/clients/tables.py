# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Tables that are printed when pytest ends (conftest.py of the tree): what passed where, and how long it took."""

_TABLES = {}  # title -> {row: {column: text}}


def cell(title, row, column, text):
    """Puts a text there; rows and columns are in the order in which they came."""
    _TABLES.setdefault(title, {}).setdefault(row, {})[column] = text


def text():
    """All of them."""
    return "\n\n".join(_text_of(title, rows) for title, rows in _TABLES.items())


def _text_of(title, rows):
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [(title, *columns), *((row, *(cells.get(column, "-") for column in columns)) for row, cells in rows.items())]
    widths = [max(map(len, words)) for words in zip(*lines)]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines)
