"""What CPU the code is for: the highest level that a machine has, or a lower one by its name."""

import re
from pathlib import Path

import pytest

from ik_service.compiler.code.lanes import CPU_INFO, CPU_VARIABLE, TARGETS, choose_target, cpu_target
from objectives import InputError

NEEDS = {target.name: target.needs for target in TARGETS}
LEVELS = ["x86-64-v4", "x86-64-v3", "x86-64-v2"]


@pytest.mark.parametrize("level", LEVELS)
def test_the_highest_level_is_taken_and_lower_ones_can_be_asked_for(level):
    flags = NEEDS[level] | {"sse4_2"}
    assert choose_target("x86_64", flags, None).name == choose_target("x86_64", flags, "").name == level
    for lower in LEVELS[LEVELS.index(level) :]:
        assert choose_target("x86_64", flags, lower).name == lower


@pytest.mark.parametrize("missing", sorted(NEEDS["x86-64-v3"]))
def test_a_level_needs_all_that_belongs_to_it(missing):
    assert choose_target("x86_64", NEEDS["x86-64-v3"] - {missing}, None).name == "x86-64-v2"


@pytest.mark.parametrize("asked", ["x86-64-v4", "generic", "native"])
def test_what_the_machine_cannot_run_is_refused(asked):
    with pytest.raises(InputError, match=rf"{CPU_VARIABLE} is '{asked}'. This machine runs: x86-64-v3, x86-64-v2\.$"):
        choose_target("x86_64", NEEDS["x86-64-v3"], asked)


def test_other_processors_have_narrower_packets():
    assert choose_target("aarch64", frozenset(), None) == choose_target("riscv64", frozenset(), None) == TARGETS[-1]
    assert TARGETS[-1].register == 16
    assert all(choose_target("x86_64", NEEDS[level], None).register == 32 for level in LEVELS[:2])


def test_this_machine_has_a_target_whose_needs_it_meets():
    if not CPU_INFO.exists() or cpu_target().machine != "x86_64":
        assert cpu_target().machine == "aarch64"
        return
    flags = re.search(r"^flags\s*: (.*)$", Path(CPU_INFO).read_text(), re.MULTILINE).group(1).split()
    assert cpu_target().needs <= set(flags)
    assert f"-target-cpu {cpu_target().name} " in cpu_target().flags
