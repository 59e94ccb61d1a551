"""Decorators and types of Warp that are known at run time only, with types of our own."""

from collections.abc import Callable
from typing import Any, TypeVar

import warp as wp

Stub = TypeVar("Stub", bound=Callable[..., Any])


def func_native(text: str) -> Callable[[Stub], Stub]:
    """Return the decorator of Warp that makes a function of C++.

    It is called as `typed_warp.func_native`: Warp takes the type of the result only where it reads the name like this.
    """
    decorator: Callable[[Stub], Stub] = wp.func_native(text)
    return decorator


def reference_to(kind: Any) -> Any:
    """Return the type of an argument of Warp functions by which a struct, vector or matrix is passed by reference."""
    warp: Any = wp
    return warp.ref[kind]
