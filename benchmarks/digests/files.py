"""Set-ups of files: what the command line writes and prints, parts of bulk jobs, and exported C.

An export is its header and source without comments, the data of its examples, and what these print. Objects are kept
from run to run as tests keep them; the Clang of PyPI compiles the programs.
"""

import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from typer.testing import CliRunner

import ik_service
from benchmarks.digests.answers import HANDS
from benchmarks.digests.documents import ALL, OBJECTS, targets_of
from benchmarks.digests.loops import ROBOTS
from benchmarks.digests.program import Parts, SetUps
from ik_service.cli.app import app as command_line
from ik_service.control import ControlLimits, IKController
from ik_service.export import Export, export_controller, export_solver
from ik_service.robots import Box, World
from tests.kept_code import code_is_kept

TIMES_JSON = re.compile(rb'"timing_ms":\{[^}]*\}')
TIMES_TEXT = re.compile(r"[0-9.]+(e[-+][0-9]+)? (us|s)\b")
COMPILER = [sys.executable, "-m", "ziglang", "cc", "-O2", "-std=c99"]
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TAG = re.compile(r"_ABI 0x[0-9a-f]+u")  # of the version, too
PROGRAMS = {"example": "problems.bin", "tick_example": "ticks.bin"}
COUNTS = {"problem_count": 100, "tick_count": 100}


def files() -> SetUps:
    """Yield the set-ups of the command line and of bulk jobs."""
    folder = Folder()
    for robot, targets in (("panda", "targets.npz"), ("dual_panda", "two.json"), ("panda", "around.json")):
        for form in ("csv", "npz", "json"):
            yield f"command line, {robot}, {targets}, {form}", partial(folder.solved, robot, targets, form)
    yield "command line, report", folder.reported
    for arguments in (("robots",), ("constraints", "stewart"), ("islands", "dual_panda"), ("openapi",)):
        yield f"command line, {' '.join(arguments)}", partial(folder.said, *arguments)
    for form in ("npz", "parquet"):
        for name in ("targets", "faulty"):
            yield f"bulk, {name}, {form}", partial(folder.bulk, name, form)


class Folder:
    """A folder with targets, in which commands are run."""

    @cached_property
    def path(self) -> Path:
        """The folder, with its files."""
        self._kept = tempfile.TemporaryDirectory()
        folder = Path(self._kept.name)
        (target,) = targets_of("panda", HANDS["panda"])
        columns = {name: np.array(target[name]) for name in ("positions", "orientations_xyzw")}
        np.savez(folder / "targets.npz", **columns)
        columns["positions"][3] = np.nan
        np.savez(folder / "faulty.npz", **columns)
        two = {"targets": targets_of("dual_panda", HANDS["dual_panda"]), "include": ALL}
        (folder / "two.json").write_text(json.dumps(two))
        around = {"targets": [target], "world": {"objects": OBJECTS}, "include": ALL}
        (folder / "around.json").write_text(json.dumps(around))
        return folder

    def solved(self, robot: str, targets: str, form: str) -> Parts:
        """Return the file that a solve writes, and what it prints."""
        output = self.path / f"{robot}.{form}"
        printed = run("solve", robot, str(self.path / targets), "--output", str(output), "--device", "cpu")
        content = output.read_bytes()
        parts = arrays_of(content) if form == "npz" else {"file": TIMES_JSON.sub(b"", content)}
        return {**parts, "printed": printed.replace(str(self.path), "")}

    def reported(self) -> Parts:
        """Return a report of random targets."""
        text = run("solve", "panda", "--random", "50", "--seed", "3", "--json", "--device", "cpu")
        return {name: value for name, value in json.loads(text).items() if name != "time_per_problem_us"}

    def said(self, *arguments: str) -> Parts:
        """Return what a command prints."""
        return {"printed": run(*arguments)}

    def bulk(self, name: str, form: str) -> Parts:
        """Return the parts of a bulk job."""
        output = self.path / f"{name}-{form}"
        given = ["solve", "panda", str(self.path / f"{name}.npz"), "--mark-faulty", "--part-rows", "8"]
        run(*given, "--format", form, "--output", str(output), "--device", "cpu")
        return {
            f"{path.name} {key}": value
            for path in sorted(output.glob("part-*"))
            for key, value in _of_part(path).items()
        }


def run(*arguments: str) -> str:
    """Return what the command line says, without times."""
    done = CliRunner().invoke(command_line, list(arguments))
    assert done.exit_code in (0, 1), done.output
    return TIMES_TEXT.sub("TIME", done.output)


def arrays_of(archive: bytes) -> Parts:
    """Return the arrays of an archive."""
    with np.load(io.BytesIO(archive)) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _of_part(path: Path) -> Parts:
    """Return a part of a bulk job without the digest of the job, in which times of files are."""
    parts: dict[str, Any]
    if path.suffix == ".npz":
        parts = dict(arrays_of(path.read_bytes()))
        notes = json.loads(str(parts.pop("notes")))
    else:
        table = pq.read_table(path)
        notes = json.loads(table.schema.metadata[b"ik_service"])
        parts = {field.name: f"{field.type} {field.metadata}" for field in table.schema}
        parts = {name: f"{kind} {table[name].to_pylist()}" for name, kind in parts.items()}
    notes.pop("job")
    return parts | {"notes": notes}


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
