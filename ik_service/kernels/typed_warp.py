"""Decorators and types of Warp known only at run time, with types of our own."""

from collections.abc import Callable
from typing import Any, TypeVar

import warp as wp

Stub = TypeVar("Stub", bound=Callable[..., Any])


def func_native(text: str) -> Callable[[Stub], Stub]:
    """Return Warp's decorator for functions of C++.

    Call `typed_warp.func_native` by this name: otherwise Warp ignores the type of the result.
    """
    decorator: Callable[[Stub], Stub] = wp.func_native(text)
    return decorator


def reference_to(kind: Any) -> Any:
    """Return the type of a by-reference argument of Warp functions: a struct, vector or matrix."""
    warp: Any = wp
    return warp.ref[kind]
