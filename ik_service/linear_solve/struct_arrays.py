"""Arrays that kernels take together: Warp structs, allocated as a whole."""

from collections.abc import Mapping
from typing import Any

import warp as wp


def zeroed(struct: Any, device: wp.Device, other: int | tuple[int, ...], **shapes: int | tuple[int, ...]) -> Any:
    """Return a Warp struct whose arrays are zero.

    Args:
        struct: The class of the struct; members that are no arrays are left to the caller.
        device: Where the arrays are to live.
        other: Shape of the arrays that are not named.
        shapes: Shapes of arrays by name.

    Raises:
        TypeError: The struct has no array of such a name.
    """
    arrays = struct()
    members: Mapping[str, Any] = struct.vars
    dtypes = {name: member.type.dtype for name, member in members.items() if wp.types.is_array(member.type)}
    if unknown := shapes.keys() - dtypes.keys():
        raise TypeError(f"{struct.key} has no arrays {sorted(unknown)}.")
    for name, dtype in dtypes.items():
        setattr(arrays, name, wp.zeros(shapes.get(name, other), dtype=dtype, device=device))
    return arrays
