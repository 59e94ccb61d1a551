"""Set-ups of exported C: header and source without comments, the data of examples, and what these print.

Objects are compiled as tests compile them, and kept from run to run; the Clang of PyPI compiles the programs.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ik_service
from benchmarks.digests.archives import TIMES_TEXT
from benchmarks.digests.documents import HANDS
from benchmarks.digests.loops import ROBOTS
from benchmarks.digests.program import Parts, SetUps
from ik_service.control import ControlLimits, IKController
from ik_service.export import Export, export_controller, export_solver
from ik_service.robots import Box, World
from tests.kept_code import code_is_kept

COMPILER = [sys.executable, "-m", "ziglang", "cc", "-O2", "-std=c99"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TAG = re.compile(r"_ABI 0x[0-9a-f]+u")  # of the version, too
PROGRAMS = {"example": "problems.bin", "tick_example": "ticks.bin"}
COUNTS = {"problem_count": 100, "tick_count": 100}


def exports() -> SetUps:
    """Yield the set-ups of all exports."""
    makes: dict[str, Callable[[], Export]] = {robot: partial(_arms, robot) for robot in HANDS}
    makes["panda in a world"] = _in_a_world
    makes |= {name: partial(_loops, name) for name in ("welded arms", "four_bar")}
    makes["panda, ticks with clearance"] = _clear_ticks
    for name, make in makes.items():
        yield f"export, {name}", partial(_parts, make)


def _arms(robot: str) -> Export:
    model = ik_service.load_robot(robot, collision="ignore")
    solver = ik_service.IKSolver(model, HANDS[robot], device="cpu", engine="compiled")
    controller = IKController(model, HANDS[robot], posture=model.mid_joint_q if robot == "dual_panda" else None)
    return export_solver(solver, controller=controller, prefix=robot, **COUNTS)


def _in_a_world() -> Export:
    solver = ik_service.IKSolver(ik_service.load_robot("panda"), HANDS["panda"], device="cpu")
    world = World({"box": Box((0.2, 0.4, 0.3), (0.55, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0))})
    return export_solver(solver, prefix="panda", world=world, problem_count=COUNTS["problem_count"])


def _loops(name: str) -> Export:
    (one,) = (robot for robot in ROBOTS if robot.name == name)
    solver = ik_service.IKSolver(one.robot, [one.target], device="cpu")
    controller = IKController(one.robot, [one.target], limits=ControlLimits(velocity=2.0))
    orientations = one.has_orientations
    return export_solver(solver, controller=controller, prefix="loops", orientations=orientations, **COUNTS)


def _clear_ticks() -> Export:
    limits = ControlLimits(clearance=0.01)
    controller = IKController(ik_service.load_robot("panda"), HANDS["panda"], limits=limits)
    return export_controller(controller, prefix="panda", tick_count=COUNTS["tick_count"])


def _parts(make: Callable[[], Export]) -> Parts:
    """Return the texts of an export, the data of its examples, and what the examples print."""
    with code_is_kept(), tempfile.TemporaryDirectory() as name:
        export, folder = make(), Path(name)
        export.write(folder)
        parts = {
            file: COMMENT.sub("", TAG.sub("", content.decode())) if file.endswith((".c", ".h")) else content
            for file, content in export.files.items()
            if not file.endswith(".o")
        }
        objects = [file for file in export.files if file.endswith(".o")]
        for program in (file.removesuffix(".c") for file in export.files if file.endswith("example.c")):
            sources = [f"{program}.c", f"{export.prefix}_ik.c", *objects]
            subprocess.run([*COMPILER, *sources, "-lm", "-o", program], cwd=folder, check=True)
            data = PROGRAMS[program]
            done = subprocess.run([f"./{program}", data], cwd=folder, capture_output=True, text=True, check=False)
            parts[f"{program} prints"] = f"{done.returncode} " + TIMES_TEXT.sub("TIME", done.stdout + done.stderr)
        return parts
