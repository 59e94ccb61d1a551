"""What the first call of each kind compiles: the modules that the table of `docs/kernel_cache.md` names."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "kernel_cache.md"
CALLS = {
    "whole poses": "solve()",
    "positions only": "solve(given=(wanted[0], None))",
    "a free axis": "solve(targets=[Target('panda_hand', free=['rz'])])",
    "a tolerance": "solve(targets=[Target('panda_hand', tolerance=[0, 0, 0, 0.1, 0.1, 0])])",
    "a tool": "solve(targets=[Target('panda_hand', offset=(0, 0, 0.1, 0, 0, 0, 1))])",
    "a world": "solve(world=World({'box': Box((0.1, 0.1, 0.1), (2, 2, 2, 0, 0, 0, 1))}))",
    "several solutions": "solve(options={'solutions': 4})",
    "the nearest solution": "solve(options={'best_of': 'nearest'})",
    "a posture": "posture()",
    "a controller": "control()",
}
PROGRAM = f"""
from ik_service import Target
from ik_service.control import IKController
from ik_service.robots import Box, World
from objectives import IKObjectivePosture

def posture():
    rows = [IKObjectivePosture(panda.mid_joint_q, weight=0.01)]
    ik_service.IKSolver(panda, ["panda_hand"], objectives=rows, device="cpu").solve(*wanted)

def control():
    controller = IKController(panda, ["panda_hand"], device="cpu")
    controller.reset(joint_q[0])
    controller.warmup()

def modules(call):
    before = compiled_objects()
    eval(call)
    return [pathlib.Path(path).parent.name for path in compiled_objects() - before]

wp.init()
report(found={{name: modules(call) for name, call in {CALLS!r}.items()}})
"""


def short_name(folder):
    """Give what a module is for: the folder's name without Warp's and ours, and without hashes."""
    name = re.sub(r"^wp_(ik_service_)?", "", folder).rpartition("__locals__")[2]
    return re.sub(r"(_[0-9a-f]{7,8})+$", "", name)


def table():
    rows = re.findall(r"^\| ([^|`]+) \| ((?:`\w+`(?:, )?)*) ?\|$", DOCUMENT.read_text(), re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", modules) for name, modules in rows if name in CALLS}


def test_calls_compile_what_the_table_says_and_nothing_else(run, tmp_path):
    found = run(PROGRAM, tmp_path)["found"]
    assert {name: sorted(map(short_name, folders)) for name, folders in found.items()} == table()
    assert list(table()) == list(CALLS)
