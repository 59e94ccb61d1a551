"""The structs of an export have the layout of those that the kernels were compiled with, by Warp's own headers."""

from pathlib import Path

import pytest
import warp as wp

from tests.export.c_library import CLANG, run

CHECKED = """
#include <cstddef>
#include <cstdint>
#include <cstring>
{macros}
{declarations}
{source}
#define SAME(ours, theirs, member) \\
    static_assert(offsetof(ours, member) == offsetof(theirs, member), #member); \\
    static_assert(sizeof(((ours *)0)->member) == sizeof(((theirs *)0)->member), #member)
{checks}
"""
FROM_WARP = {
    "bounds": ("wp::launch_bounds_t<1>", ["shape", "size", "coord_mult"]),
    "array": ("wp::array_t<float>", ["data", "grad", "shape", "strides", "ndim", "flags"]),
}


@pytest.mark.evidence_cases("floating")
@pytest.mark.parametrize("name", ["panda", "floating"])
def test_structs_have_the_layout_of_those_of_the_kernels(exported, name, tmp_path):
    export, found = exported(name).export, set()
    for one in export.objects:
        pairs = [(f"{export.prefix}_{ours}", theirs, members) for ours, (theirs, members) in FROM_WARP.items()]
        for struct in export.layout.structs.values():
            if f"struct {struct.native_name}\n" in one.source or f"struct {struct.native_name} " in one.source:
                pairs.append((struct.name, struct.native_name, [member for _, member in struct.members]))
                found.add(struct.name)
        checks = [f"static_assert(sizeof({ours}) == sizeof({theirs}));" for ours, theirs, _ in pairs]
        checks += [f"SAME({ours}, {theirs}, {member});" for ours, theirs, members in pairs for member in members]
        macros = [f"#define {old} {new}" for old, new in one.macros.items()]
        text = CHECKED.format(
            macros="\n".join(macros),
            declarations=export.layout.declarations(),
            source=one.source.replace("#define WP_NO_CRT", ""),  # with the system's headers
            checks="\n".join(checks),
        )
        (tmp_path / "check.cpp").write_text(text)
        native = Path(wp.__file__).with_name("native")
        run([*CLANG, "c++", "-std=c++17", "-w", "-DNDEBUG", f"-I{native}", "-c", "check.cpp"], tmp_path)
    assert found == set(export.layout.structs)
    assert len(found) >= 9
