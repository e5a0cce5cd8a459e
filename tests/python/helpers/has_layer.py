# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A test whose device has the link layer that $LAYER names."""
import os


def test_layer(ethernet):
    assert os.environ['LAYER'] == ('ethernet' if ethernet else 'ib')
