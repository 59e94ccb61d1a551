"""The instructions of PTX that the translator knows, with their types; `ptx.h` says what they do."""

import re

TYPES = {
    **{f"{letter}{bits}": bits // 8 for letter in "sub" for bits in (8, 16, 32, 64)},
    "f32": 4,
    "f64": 8,
    "pred": 1,
}
VECTORS = {None: 1, "v2": 2, "v4": 4}
FLOATS, WHOLE, BITS = {"f32", "f64"}, {"s16", "u16", "s32", "u32", "s64", "u64"}, {"b16", "b32", "b64"}
ANY = FLOATS | WHOLE | BITS | {"pred"}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
CARRY = ("add.cc", "addc", "addc.cc", "sub.cc", "subc", "subc.cc")
CARRY_OF_PRODUCTS = tuple(
    f"{name}.{half}{cc}" for half in ("lo", "hi") for name, cc in (("mad", ".cc"), ("madc", ""), ("madc", ".cc"))
)
INSTRUCTIONS: dict[str, tuple[set[str], int]] = {}  # types and operands by name, without '.rn' and '.ftz'
for _names, _types, _operands in (
    ("add sub min max div", FLOATS | WHOLE, 3),
    ("mul copysign add.rz", FLOATS, 3),
    ("fma", FLOATS, 4),
    ("rcp sqrt", FLOATS, 2),
    ("neg abs", FLOATS | WHOLE, 2),
    ("rcp.approx sqrt.approx rsqrt.approx sin.approx cos.approx ex2.approx lg2.approx", {"f32"}, 2),
    ("div.approx", {"f32"}, 3),
    ("rem mul.lo mul.hi mul.wide", WHOLE, 3),
    ("mad.lo mad.hi mad.wide", WHOLE, 4),
    (" ".join(CARRY), WHOLE, 3),
    (" ".join(CARRY_OF_PRODUCTS), WHOLE, 4),
    (" ".join(f"setp.{name}" for name in COMPARISONS), ANY - {"pred"}, 3),
    (" ".join(f"setp.{name}" for name in UNORDERED), FLOATS, 3),
    ("selp", ANY - {"pred"}, 4),
    ("and or xor", BITS | {"pred"}, 3),
    ("not", BITS | {"pred"}, 2),
    ("shl shr", BITS | WHOLE, 3),
    ("clz popc", BITS, 2),
    ("mov cvta.to.global cvta.to.local cvta.global cvta.local", ANY, 2),
):
    INSTRUCTIONS.update(dict.fromkeys(_names.split(), (_types, _operands)))
CONVERSION = re.compile(r"^cvt(?:\.(rn|rni|rzi|rmi|rpi))?(\.ftz)?\.(\w+)\.(\w+)$")
_TYPE = r"\.(?P<type>[subf]\d+)$"
_SPACE = r"(?:\.(?P<space>global|param|local|shared|const))?"
MEMORY = {
    "ld": re.compile(rf"^ld(?:\.volatile)?{_SPACE}(?P<kept>\.nc)?(?:\.(?P<vector>v2|v4))?{_TYPE}"),
    "st": re.compile(rf"^st(?:\.volatile)?{_SPACE}(?:\.(?P<vector>v2|v4))?{_TYPE}"),
    "atom": re.compile(rf"^atom(?:\.(?P<space>global))?\.(?P<change>add|min|max|exch|cas|and|or){_TYPE}"),
    "red": re.compile(rf"^red(?:\.(?P<space>global))?\.(?P<change>add|min|max|and|or){_TYPE}"),
}


class TranslationFault(Exception):
    """PTX has something that the translator does not know."""


def word(opcode: str, operands: int) -> tuple[str, bool]:
    """Return the function of `ptx.h` for an instruction, and whether it has to do with the carry.

    Args:
        opcode: With all that follows it, such as 'add.ftz.f32'.
        operands: How many it has.

    Raises:
        TranslationFault: There is no such instruction.
    """
    conversion = CONVERSION.match(opcode)
    if conversion:
        rounding, flush, to, source = conversion.groups()
        whole = to in WHOLE | {"u8", "s8"}, source in WHOLE | {"u8", "s8"}
        known = {to, source} <= FLOATS | WHOLE | {"u8", "s8"} and operands == 2
        narrower = to == "f32" and source == "f64"
        needs = "rn" if (whole == (False, True) or narrower) else None
        if whole == (True, False) or (to == source and to in FLOATS):
            known &= rounding in ("rni", "rzi", "rmi", "rpi")
        else:
            known &= rounding == needs
        if known:
            suffix = f"_{rounding}" if rounding and rounding != "rn" else ""
            return f"cvt{suffix}_<{to}, {source}, {'true' if flush else 'false'}>", False
        raise TranslationFault(f"Unknown instruction: {opcode}")
    *words, kind = opcode.split(".")
    flush = "ftz" in words[1:]
    name = ".".join(one for one in words if one not in ("ftz", "rn"))
    types, count = INSTRUCTIONS.get(name, (set(), 0))
    if kind not in types or count != operands or (flush and kind != "f32"):
        raise TranslationFault(f"Unknown instruction: {opcode} with {operands} operands")
    function = "mov" if name.startswith("cvta") else name.replace(".", "_")
    return f"{function}_<{kind}, {'true' if flush else 'false'}>", name in CARRY or name in CARRY_OF_PRODUCTS
