# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""tests/clients/pairwise.py: what is left of a table has each pair of values that the table has."""
import itertools
import random

from pairwise import every_pair, options


def pairs(rows):
    parameters = sorted(set().union(*rows))
    return {pair for row in rows for pair in itertools.combinations([(one, row.get(one)) for one in parameters], 2)}


def test_a_product():
    """3 * 3 * 4 of them: the least that can do is 12."""
    rows = {number: dict(zip("abc", values)) for number, values in
            enumerate(itertools.product(range(3), range(3), range(4)))}
    stay = every_pair(rows)
    assert pairs([rows[name] for name in stay]) == pairs(rows.values())
    assert 12 <= len(stay) <= 16


def test_tables_with_holes():
    """Whatever is in it: no pair is lost, and that a parameter is absent is a value."""
    for seed in range(50):
        chance = random.Random(seed)
        rows = {number: {one: chance.randrange(3) for one in "abcde" if chance.random() < 0.7}
                for number in range(20)}
        stay = every_pair(rows)
        assert pairs([rows[name] for name in stay]) == pairs(rows.values()), seed
        assert len(stay) == len(set(stay)) <= len(rows)


def test_options():
    assert options(["-e", "-c", "UD", "-q", 16, "--mmap=x"]) == {"-e": "", "-c": "UD", "-q": "16", "--mmap": "x"}
