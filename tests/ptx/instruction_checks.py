"""What single instructions do, by the words of the PTX ISA, at the places where C++ and PTX may differ."""

import ctypes
import struct

import numpy as np
import pytest

from tests.pretended_cuda.translation import NATIVE, compile_shared
from tests.ptx.plugin import FLAGS, HERE
from tests.ptx.translator import translate

HEAD = ".version 9.4\n.target sm_90\n.address_size 64\n"
KERNEL = """.visible .entry case_{number}(
\t.param .u64 case_{number}_param_0
)
{{
\t.reg .pred %p<2>;
\t.reg .b16 %h<2>;
\t.reg .b32 %w<4>;
\t.reg .b64 %q<4>;
\t.reg .f32 %f<2>;
\t.reg .f64 %d<2>;
\tld.param.u64 %q3, [case_{number}_param_0];
{code}
}}
"""
REGISTER = {"f32": "%f0", "f64": "%d0", "16": "%h0", "32": "%w0", "64": "%q0", "pred": "%p0"}


def f(value):
    return f"0f{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


def d(value):
    return f"0d{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


NAN, INF, TINY = float("nan"), float("inf"), 2.0**-140  # the last is below the normal float32
ULP = 2.0**-23
CASES = [  # instruction, operands, type of the result, result
    ("add.f32", [f(TINY), f(TINY)], "f32", 2 * TINY),
    ("add.ftz.f32", [f(TINY), f(1.0)], "f32", 1.0),
    ("add.ftz.f32", [f(TINY), f(-TINY)], "f32", 0.0),
    ("sub.ftz.f32", [f(2.0**-126), f(1.5 * 2.0**-126)], "f32", -0.0),
    ("mul.ftz.f32", [f(2.0**-100), f(2.0**-40)], "f32", 0.0),
    ("mul.f32", [f(2.0**-100), f(2.0**-40)], "f32", TINY),
    ("fma.rn.f32", [f(1 + ULP), f(1 - ULP), f(-1.0)], "f32", -(ULP**2)),
    ("fma.rn.f64", [d(1 + 2.0**-52), d(1 - 2.0**-52), d(-1.0)], "f64", -(2.0**-104)),
    ("add.rz.f32", [f(1.0), f(0.75 * ULP)], "f32", 1.0),
    ("add.rz.f32", [f(-1.0), f(-0.75 * ULP)], "f32", -1.0),
    ("add.rz.f32", [f(1.0), f(-0.25 * ULP)], "f32", 1 - ULP / 2),
    ("div.rn.f32", [f(1.0), f(3.0)], "f32", float(np.float32(1) / np.float32(3))),
    ("div.approx.ftz.f32", [f(3.0), f(2.0**127)], "f32", 0.0),
    ("rsqrt.approx.ftz.f32", [f(TINY)], "f32", INF),
    ("min.f32", [f(NAN), f(2.0)], "f32", 2.0),
    ("max.f32", [f(-3.0), f(NAN)], "f32", -3.0),
    ("min.f64", [d(0.0), d(-0.0)], "f64", -0.0),
    ("max.f32", [f(-0.0), f(0.0)], "f32", 0.0),
    ("min.s32", ["-1", "1"], "s32", -1),
    ("min.u32", ["-1", "1"], "u32", 1),
    ("copysign.f32", [f(-1.0), f(3.0)], "f32", -3.0),
    ("abs.ftz.f32", [f(-TINY)], "f32", 0.0),
    ("neg.s32", ["-2147483648"], "s32", -(2**31)),
    ("div.s32", ["-7", "2"], "s32", -3),
    ("rem.s32", ["-7", "2"], "s32", -1),
    ("mul.lo.s32", ["65537", "65537"], "s32", 131073),
    ("mul.hi.u32", ["-1", "-1"], "u32", 2**32 - 2),
    ("mul.hi.s64", ["-1", "3"], "s64", -1),
    ("mul.wide.s32", ["-3", "1073741824"], "s64", -3 * 2**30),
    ("mul.wide.u32", ["-3", "2"], "s64", 2 * (2**32 - 3)),
    ("mad.lo.s32", ["65536", "65536", "-5"], "s32", -5),
    ("shl.b32", ["1", "32"], "u32", 0),
    ("shl.b32", ["3", "31"], "u32", 2**31),
    ("shr.u32", ["-1", "40"], "u32", 0),
    ("shr.s32", ["-8", "1"], "s32", -4),
    ("shr.s32", ["-8", "200"], "s32", -1),
    ("shr.s64", ["-8", "64"], "s64", -1),
    ("clz.b32", ["0"], "u32", 32),
    ("clz.b64", ["1"], "u32", 63),
    ("setp.lt.f32", [f(NAN), f(1.0)], "pred", 0),
    ("setp.geu.f32", [f(NAN), f(1.0)], "pred", 1),
    ("setp.ne.f64", [d(NAN), d(1.0)], "pred", 0),
    ("setp.neu.f64", [d(NAN), d(NAN)], "pred", 1),
    ("setp.eq.ftz.f32", [f(TINY), f(0.0)], "pred", 1),
    ("setp.lt.u32", ["-1", "1"], "pred", 0),
    ("setp.lt.s32", ["-1", "1"], "pred", 1),
    ("setp.eq.s16", ["65535", "-1"], "pred", 1),
    ("cvt.rni.f32.f32", [f(2.5)], "f32", 2.0),
    ("cvt.rni.s32.f64", [d(-3.5)], "s32", -4),
    ("cvt.rzi.s32.f32", [f(-2.9)], "s32", -2),
    ("cvt.rzi.s32.f32", [f(3e9)], "s32", 2**31 - 1),
    ("cvt.rzi.s32.f32", [f(-INF)], "s32", -(2**31)),
    ("cvt.rzi.s32.f32", [f(NAN)], "s32", 0),
    ("cvt.rzi.u32.f32", [f(-1.0)], "u32", 0),
    ("cvt.rzi.s64.f64", [d(1e300)], "s64", 2**63 - 1),
    ("cvt.rmi.f64.f64", [d(-1.5)], "f64", -2.0),
    ("cvt.rpi.f64.f64", [d(-1.5)], "f64", -1.0),
    ("cvt.rn.f32.s32", ["16777217"], "f32", 16777216.0),
    ("cvt.rn.f32.f64", [d(1 + 2.0**-24)], "f32", 1.0),
    ("cvt.rn.ftz.f32.f64", [d(TINY)], "f32", 0.0),
    ("cvt.s64.s32", ["-1"], "s64", -1),
    ("cvt.u64.u32", ["-1"], "s64", 2**32 - 1),
    ("cvt.u16.u32", ["65537"], "u16", 1),
    ("cvt.u32.u64", ["4294967297"], "u32", 1),
    ("mov.b32", [f(1.0)], "u32", 0x3F800000),
]
TYPES = {
    "f32": np.float32, "f64": np.float64, "s32": np.int32, "u32": np.uint32,
    "s64": np.int64, "u16": np.uint16, "pred": np.uint32,
}  # fmt: skip
# 128-bit sums and products by the carry, as the reduction of large angles has them.
LONG = """
\tadd.cc.u32 %w0, {a0}, {b0};
\taddc.cc.u32 %w1, {a1}, {b1};
\taddc.u32 %w2, 0, 0;
\tst.global.u32 [%q3], %w0;
\tst.global.u32 [%q3+4], %w1;
\tst.global.u32 [%q3+8], %w2;
\tsub.cc.u32 %w0, {a0}, {b0};
\tsubc.u32 %w1, {a1}, {b1};
\tst.global.v2.u32 [%q3+16], {{%w0, %w1}};
\tmul.lo.u32 %w0, {a0}, {b0};
\tmul.hi.u32 %w1, {a0}, {b0};
\tmad.lo.cc.u32 %w1, {a0}, {b1}, %w1;
\tmadc.hi.u32 %w2, {a0}, {b1}, 0;
\tmad.lo.cc.u32 %w1, {a1}, {b0}, %w1;
\tmadc.hi.cc.u32 %w2, {a1}, {b0}, %w2;
\taddc.u32 %w3, 0, 0;
\tmad.lo.cc.u32 %w2, {a1}, {b1}, %w2;
\tmadc.hi.u32 %w3, {a1}, {b1}, %w3;
\tst.global.v4.u32 [%q3+32], {{%w0, %w1, %w2, %w3}};
\tret;
"""
PAIRS = [(2**64 - 1, 2**64 - 1), (2**63 + 5, 2**40 - 1), (0x123456789ABCDEF0, 0xFEDCBA9876543210), (3, 2**32)]


def case(number, opcode, operands, kind):
    if kind == "pred":
        return (
            f"\t{opcode} %p0, {', '.join(operands)};\n\tselp.u32 %w0, 1, 0, %p0;\n\tst.global.u32 [%q3], %w0;\n\tret;"
        )
    to = REGISTER.get(kind) or REGISTER[kind[1:]]
    return f"\t{opcode} {to}, {', '.join(operands)};\n\tst.global.{kind} [%q3], {to};\n\tret;"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a case, in one module with all others: it gives 64 bytes that the case has written."""
    codes = [case(k, *one[:3]) for k, one in enumerate(CASES)]
    for a, b in PAIRS:
        halves = {f"{name}{k}": (value >> 32 * k) % 2**32 for name, value in (("a", a), ("b", b)) for k in range(2)}
        codes.append(LONG.format(**halves))
    ptx = HEAD + "".join(KERNEL.format(number=k, code=code) for k, code in enumerate(codes))
    folder = tmp_path_factory.mktemp("cases")
    (folder / "cases.cpp").write_text(translate(ptx))
    compile_shared(folder / "cases.cpp", folder / "cases.so", *FLAGS, f"-I{HERE}", f"-I{NATIVE}")
    library = ctypes.CDLL(str(folder / "cases.so"))

    def run_case(number):
        out = np.zeros(64, np.uint8)
        kernel = ctypes.c_void_p.in_dll(library, f"pretended_case_{number}").value  # the first field: what runs it
        address = ctypes.c_uint64(out.ctypes.data)
        ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))(kernel)(
            (ctypes.c_void_p * 1)(ctypes.addressof(address))
        )
        return out

    return run_case


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join([one[0], *one[1]]) for one in CASES])
def test_an_instruction_does_what_the_isa_says(number, run):
    _, _, kind, value = CASES[number]
    dtype = np.dtype(TYPES[kind])
    assert run(number)[: dtype.itemsize].tobytes() == dtype.type(value).tobytes()


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_sums_and_products_go_on_by_the_carry(number, run):
    a, b = PAIRS[number]
    out = run(len(CASES) + number).tobytes()
    assert int.from_bytes(out[:12], "little") == a + b
    assert int.from_bytes(out[16:24], "little") == (a - b) % 2**64
    assert int.from_bytes(out[32:48], "little") == a * b
