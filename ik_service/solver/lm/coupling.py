"""Coordinates that follow another one: mimic joints and linear couplings."""

import typing
from typing import Any

import warp as wp


@wp.func
@typing.no_type_check
def follow(number: wp.array2d[wp.float32], f: int, leader: Any):
    """Return the value of a follower, in the precision of its leader's."""
    value = type(leader)(number[f, 0]) * leader + type(leader)(number[f, 1])
    return wp.clamp(value, type(leader)(number[f, 2]), type(leader)(number[f, 3]))
