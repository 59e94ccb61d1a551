"""Arithmetic on packets: as many unrelated solves side by side as a vector register has lanes.

A packet is a Warp vector of floats (a plain float at width 1). Warp's own vector arithmetic does not become SIMD code;
Clang's vector types do, so every operation is a one-line native function, and the optimiser removes the copies between
the two types. At width 1 the same functions are plain C++, which CUDA compiles too.
"""

import math
from functools import cache
from typing import Any, no_type_check

import warp as wp

# A native function is parsed for its annotations, so each is spelled out; `P` is a packet of floats, `I` of integers.
TURN = 2.0 * math.pi


def _snippet(width: int, expression: str, *, packets: str, lanes: str = "") -> str:
    """C++ that loads packets into registers of their capital letters, evaluates and returns an expression.

    Args:
        width: Lanes.
        expression: C++ over the registers; scalar arguments by their own names.
        packets: Names of the packet arguments of floats; the first also says what the result looks like.
        lanes: Names of the packet arguments of integers.
    """
    # Contraction lets multiplications and additions of different functions fuse once they are inlined.
    lines = ["", "#ifdef __clang__", "#pragma clang fp contract(fast)", "#endif"]
    if width == 1:
        lines += [f"const float {name.upper()} = {name};" for name in packets]
        lines += [f"const int {name.upper()} = {name};" for name in lanes]
        return "\n".join([*lines, f"return {expression};"])
    size = 4 * width
    lines += [
        f"typedef float F __attribute__((vector_size({size})));",
        f"typedef int N __attribute__((vector_size({size})));",
    ]
    for kind, names in (("F", packets), ("N", lanes)):
        for name in names:
            lines.append(f"{kind} {name.upper()}; __builtin_memcpy(&{name.upper()}, &{name}, {size});")
    return "\n".join([*lines, _returned(expression, packets, lanes)])


def _returned(expression: str, packets: str, lanes: str) -> str:
    if expression.startswith("any:"):
        return f"return __builtin_reduce_or({expression[4:]}) != 0;"
    like = packets[0] if packets else lanes[0]
    return f"auto r = {expression}; decltype({like}) out; __builtin_memcpy(&out, &r, sizeof(r)); return out;"


@cache
@no_type_check
def packet_functions(width: int) -> dict[str, Any]:  # noqa: C901  # a plain list of one-line functions
    """Return the operations on packets of a width, by the names that generated source uses.

    Args:
        width: Lanes of a packet: 8 for AVX2, 1 for CUDA and for comparison.
    """
    P: Any = wp.types.vector(width, float) if width > 1 else float
    I: Any = wp.types.vector(width, int) if width > 1 else int  # noqa: E741  # a type, named like P
    wide = width > 1
    zeros = "F{}" if wide else "0.0f"

    def s(expression: str, packets: str = "ab", lanes: str = "") -> str:
        return _snippet(width, expression, packets=packets, lanes=lanes)

    def each(function: str) -> str:
        return f"__builtin_elementwise_{function}" if wide else {"sqrt": "sqrtf", "roundeven": "rintf"}[function]

    @wp.func_native(s("A + B"))
    def p_add(a: P, b: P) -> P: ...
    @wp.func_native(s("A - B"))
    def p_sub(a: P, b: P) -> P: ...
    @wp.func_native(s("A * B"))
    def p_mul(a: P, b: P) -> P: ...
    @wp.func_native(s("A / B"))
    def p_div(a: P, b: P) -> P: ...
    @wp.func_native(s("A + x", "a"))
    def p_add_number(a: P, x: float) -> P: ...
    @wp.func_native(s("x - A", "a"))
    def p_number_sub(x: float, a: P) -> P: ...
    @wp.func_native(s("A * x", "a"))
    def p_scale(a: P, x: float) -> P: ...
    @wp.func_native(s("x / A", "a"))
    def p_number_div(x: float, a: P) -> P: ...
    @wp.func_native(s("-A", "a"))
    def p_neg(a: P) -> P: ...
    @wp.func_native(s(f"{each('sqrt')}(A)", "a"))
    def p_sqrt(a: P) -> P: ...
    @wp.func_native(s(f"1.0f / {each('sqrt')}(A > least ? A : {zeros} + least)", "a"))
    def p_inverse_sqrt(a: P, least: float) -> P: ...
    @wp.func_native(s(f"A < 0.0f ? {zeros} - 1.0f : {zeros} + 1.0f", "a"))
    def p_sign(a: P) -> P: ...
    @wp.func_native(s(f"A > 0.0f ? {zeros} + 1.0f : {zeros}", "a"))
    def p_step(a: P) -> P: ...
    @wp.func_native(s("A < B ? A : B"))
    def p_min(a: P, b: P) -> P: ...
    @wp.func_native(s("A > B ? A : B"))
    def p_max(a: P, b: P) -> P: ...
    @wp.func_native(s(f"A > x ? A : {zeros} + x", "a"))
    def p_max_number(a: P, x: float) -> P: ...
    @wp.func_native(s(f"A < lower ? {zeros} + lower : (A > upper ? {zeros} + upper : A)", "a"))
    def p_clamp(a: P, lower: float, upper: float) -> P: ...
    @wp.func_native(s("A < B ? C : D", "abcd"))
    def p_select_less(a: P, b: P, c: P, d: P) -> P: ...
    @wp.func_native(s(f"0.5f * (A - {TURN!r}f * {each('roundeven')}(A * {1.0 / TURN!r}f))", "a"))
    def p_half_turn(a: P) -> P: ...

    held = "((A <= lower) & (B > 0.0f)) | ((A >= upper) & (B < 0.0f))"

    @wp.func_native(s(f"{held} ? {zeros} + pivot : {zeros}"))
    def p_held(a: P, b: P, lower: float, upper: float, pivot: float) -> P: ...
    @wp.func_native(s("I + 1", "", "i"))
    def p_count(i: I) -> I: ...

    done = "(A <= C) | (B > stuck) | (I >= exhausted)"

    @wp.func_native(s(f"any:{done}" if wide else done, "abc", "i"))
    def p_any_done(a: P, b: P, c: P, i: I, stuck: float, exhausted: int) -> bool: ...

    made = dict(locals())
    return {name: value for name, value in made.items() if name.startswith("p_") or name in ("P", "I")}
