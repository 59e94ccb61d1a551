"""Registration of PyTorch operators with `torch.vmap`, and names for the objects of operators."""

import itertools
import weakref
from typing import Any, TypeVar

import torch
from torch import Tensor

Thing = TypeVar("Thing")


class Known(weakref.WeakValueDictionary[str, Thing]):
    """Weak references to objects by name, because operators take no objects; `torch.compile` may trace numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count()

    def name_of(self, thing: Thing) -> str:
        """Register an object; return its name."""
        name = str(next(self._numbers))
        self[name] = thing
        return name


def register(operator: Any) -> None:
    """Let an operator process a further batch axis in one call."""

    def over_batch(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        flat = []
        for one, axis in zip(arguments, in_dims, strict=True):
            if isinstance(one, Tensor):
                many = one.expand(info.batch_size, *one.shape) if axis is None else one.movedim(axis, 0)
                flat.append(many.reshape(-1, *many.shape[2:]))
            else:
                flat.append(one)
        found = operator(*flat)
        several = found if isinstance(found, tuple) else (found,)
        n = several[0].shape[0] // info.batch_size
        parts = tuple(one.reshape(info.batch_size, n, *one.shape[1:]) for one in several)
        return (parts, (0,) * len(parts)) if isinstance(found, tuple) else (parts[0], 0)

    torch.library.register_vmap(operator, over_batch)


class LastFunction(torch.autograd.Function):
    """Pull-back of gradients that refuses second derivatives by name."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        """Refuse the second derivative."""
        raise RuntimeError("There are first derivatives alone: no backward pass leads through a backward pass.")


def wants_gradient(tensor: Tensor) -> bool:
    """Return whether a tensor wants a gradient, inside wrappers of `torch.func` and `torch.vmap`, too."""
    wrapped: Any = torch._C._functorch
    while not torch.compiler.is_compiling() and wrapped.is_functorch_wrapped_tensor(tensor):
        if tensor.requires_grad:
            return True
        tensor = wrapped.get_unwrapped(tensor)
    return tensor.requires_grad
