# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""libibverbs' constants by their names in C, which is what older pyverbs has in pyverbs.enums."""
try:
    from pyverbs import enums as _enums
except ImportError:
    import enum as _enum

    from pyverbs import libibverbs_enums as _enums

    for _type in vars(_enums).values():
        if isinstance(_type, _enum.EnumMeta):
            globals().update(_type.__members__)
    # These two it lacks.
    IBV_QPF_GRH_REQUIRED = 1
    IBV_WC_STANDARD_FLAGS = 0x7f

globals().update({_name: _value for _name, _value in vars(_enums).items()
                  if _name.startswith(('IBV_', '_IBV_'))})
