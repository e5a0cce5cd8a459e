# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Those that devices of tests have."""
import os

LINK_LAYERS = ("ethernet", "ib")
LINK_LAYER_NAMES = {"ethernet": "Ethernet", "ib": "InfiniBand"}  # as programs show them
# For what has nothing to do with how a peer is addressed: InfiniBand adds nothing to it.
ONE_LINK_LAYER = LINK_LAYERS if os.environ.get("SIMHCA_SOAK") == "1" else ("ethernet",)
