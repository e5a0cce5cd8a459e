# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Fewer tests of those that are the same with other parameters: any two values of two parameters that stand in one of them
also stand in one that stays. Most mistakes need a value, or two that meet. SIMHCA_CLIENTS=short asks for it, for tests that are
marked:

    @pytest.mark.pairs("program", "flags", also=["-b"])     these parameters; those that are flags by each option,
                                                            and flags that the test adds to them

The tests of a file whose marks name the same parameters are one table. That an option is absent is a value of it. This is
a plug-in of pytest (conftest.py of the tree).
"""
import collections
import itertools
import os

import pytest

SHORT_FORM = os.environ.get("SIMHCA_CLIENTS") == "short"
long_form_only = pytest.mark.skipif(SHORT_FORM, reason="in the long form only")


def options(flags):
    """{option: its argument, or ""}"""
    found, option = {}, None
    for word in map(str, flags):
        if word.startswith("-"):
            option, _, found[option] = word.partition("=")
        else:
            found[option] = f"{found[option]} {word}".strip()
    return found


def every_pair(rows):
    """Names of some rows, {name: {parameter: value}}, that have each pair of values which one of all rows has."""
    parameters = sorted(set().union(*rows.values()))
    pairs = {name: set(itertools.combinations([(one, row.get(one)) for one in parameters], 2))
             for name, row in rows.items()}
    left = set().union(*pairs.values())
    stay = []
    while left:
        stay.append(max(pairs, key=lambda name: len(pairs[name] & left)))
        left -= pairs[stay[-1]]
    # Of those that came first others may have all by now.
    for name in list(stay):
        if pairs[name] <= set().union(*(pairs[one] for one in stay if one != name)):
            stay.remove(name)
    return stay


def row_of(item, mark):
    row = options(mark.kwargs.get("also", ()))
    for name in mark.args:
        value = item.callspec.params[name]
        if isinstance(value, list):
            row.update(options(value))
        else:
            row[name] = repr(value)
    return row


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    tables = collections.defaultdict(dict)
    for item in items if SHORT_FORM else ():
        mark = item.get_closest_marker("pairs")
        if mark:
            tables[item.path, mark.args][item] = row_of(item, mark)
    stay = {item for rows in tables.values() for item in every_pair(rows)}
    left_out = [item for rows in tables.values() for item in rows if item not in stay]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
