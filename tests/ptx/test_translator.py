"""What the translator does not know is an error that names it; nothing is left out."""

import json
import re

import pytest

from tests.ptx.instructions import TranslationFault
from tests.ptx.translator import translate

MODULE = """.version 9.4
.target sm_90
.address_size 64
{outside}
.visible .entry kernel(
\t.param .u64 kernel_param_0
)
{directive}
{{
\t.reg .pred %p<2>;
\t.reg .b32 %r<3>;
\t.reg .b64 %rd<3>;
\t.reg .f32 %f<3>;
{code}
\tret;
}}
"""


def module(code="", outside="", directive=""):
    return MODULE.format(code=code, outside=outside, directive=directive)


def test_a_module_becomes_code_and_its_instructions_are_counted():
    found = translate(
        module("$L__BB0_1:\n\tadd.s32 %r0, %r1, 1;\n\t@!%p0 bra $L__BB0_1;", directive=".maxntid 32, 1, 1")
    )
    assert json.dumps(json.dumps({"add.s32": 1, "bra": 1, "ret": 1})) in found
    assert "put(_r0, add_<s32, false>(_r1, 1ull));" in found
    assert "executed += 2; if (!_p0) { pretended_pause(); goto" in found


@pytest.mark.parametrize(
    "code",
    [
        "shfl.sync.down.b32 %r0, %r1, 1, 31, -1;",
        "add.sat.f32 %f0, %f1, %f2;",
        "add.ftz.s32 %r0, %r1, %r2;",
        "add.s32 %r0, %r1;",
        "mul.s32 %r0, %r1, %r2;",
        "fma.rz.f32 %f0, %f1, %f2, %f0;",
        "setp.lt.and.f32 %p0, %f0, %f1, %p1;",
        "cvt.rna.tf32.f32 %r0, %f0;",
        "cvt.rzi.f32.s32 %f0, %r0;",
        "cvt.f32.f64 %f0, %r0;",
        "ld.global.relaxed.u32 %r0, [%rd0];",
        "ld.global.v8.u32 %r0, [%rd0];",
        "ld.global.u32 %r0, %rd0;",
        "atom.shared.add.u32 %r0, [%r1], 1;",
        "atom.global.xor.b32 %r0, [%rd0], 1;",
        "bar.warp.sync 15;",
        "bar.sync 1;",
        "call %rd0;",
        "bra.weird $L__BB0_1;",
        ".tex .u64 image;",
        '.pragma "frequency 2";',
    ],
)
def test_what_is_not_known_is_named(code):
    with pytest.raises(TranslationFault, match=re.escape(code.split()[0])):
        translate(module(f"\t{code}"))


def test_an_unknown_register_is_named():
    with pytest.raises(TranslationFault, match="%clock"):
        translate(module("\tmov.u32 %r0, %clock.x;"))


@pytest.mark.parametrize(
    "given", [{"outside": ".extern .func printf (.param .b64 a);"}, {"directive": ".cluster_dim 2, 1, 1"}]
)
def test_so_are_declarations(given):
    with pytest.raises(TranslationFault, match=r"Unknown (declaration|directive): .*(extern|cluster_dim)"):
        translate(module(**given))


def test_another_version_is_refused():
    with pytest.raises(TranslationFault, match="version"):
        translate(module().replace(".version 9.4", ".version 10.0"))
