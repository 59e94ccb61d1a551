"""Known causes of wrong derivatives of residual kernels, found in the source of the kernels."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import warp as wp


def gradient_hint(launches: Sequence[Any]) -> str:
    """Describe a known cause of wrong gradients in the launched kernels of a tape, or return an empty text."""
    kernels = list(dict.fromkeys(launch[0] for launch in launches if isinstance(launch, list)))
    for kernel in kernels:
        if not _has_backward(kernel):
            return f" Kernel '{kernel.key}' has no backward pass; make it without enable_backward=False."
    for kernel in kernels:
        loop = next(_rolled_loops(kernel.adj, kernel.module.options["max_unroll"], set()), None)
        if loop is not None:
            return (
                f" Kernel '{kernel.key}' has a loop that Warp does not unroll ({loop}): its backward pass takes the "
                "variables that the loop changes as they were before it, so what is computed from them, in the loop or "
                "behind it, has wrong gradients or none. Let the loop only add to sums that are written as they are, "
                f"or give it a number of rounds that is known beforehand, such as range(3) or range(wp.static(count)), "
                f"and at most {kernel.module.options['max_unroll']}; or override compute_jacobian_analytic()."
            )
    return ""


def _has_backward(kernel: Any) -> bool:
    for options in (kernel.options, kernel.module.options):
        if options.get("enable_backward") is not None:
            return bool(options["enable_backward"])
    return bool(wp.config.enable_backward)


def _rolled_loops(adjoint: Any, max_unroll: int, seen: set[int]) -> Iterator[str]:
    """Give the heads of loops that are not unrolled, in a kernel or function and in called functions."""
    if id(adjoint) in seen:
        return
    seen.add(id(adjoint))
    local = set(adjoint.assigned_name_ids()) | set(adjoint.arg_types)
    for node in ast.walk(adjoint.tree):
        if isinstance(node, ast.While):
            yield f"while {ast.unparse(node.test)}"
        elif isinstance(node, ast.For) and not _is_unrolled(node.iter, local, max_unroll):
            yield f"for ... in {ast.unparse(node.iter)}"
    for function in adjoint.get_references()[2]:
        yield from _rolled_loops(function.adj, max_unroll, seen)


def _is_unrolled(iterated: ast.expr, local: set[str], max_unroll: int) -> bool:
    if not (isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range"):
        return True  # a fixed number of items, such as the entries of a vector
    try:
        return len(range(*(ast.literal_eval(argument) for argument in iterated.args))) <= max_unroll
    except (ValueError, TypeError):
        return all(_is_known(argument, local) for argument in iterated.args)


def _is_known(node: ast.expr, local: set[str]) -> bool:
    """Return True for an expression known at compile time: no variable or argument of the kernel."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("wp.static", "warp.static"):
        return True
    return not any(isinstance(inner, ast.Name) and inner.id in local for inner in ast.walk(node))
