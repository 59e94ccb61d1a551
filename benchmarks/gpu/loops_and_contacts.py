"""Loops and contacts on a device: the answers beside those of the CPU, judged by the host in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.collision.free_answers import TABLE, cluttered
from benchmarks.gpu.rates import timed
from benchmarks.islands import mechanisms
from benchmarks.problems.mechanisms import MECHANISMS, Mechanism
from benchmarks.report import Report
from ik_service.robots import RobotModel, World

Make = Callable[..., ik_service.IKSolver]
CLOSED, NEAR = 1e-6, 1e-3  # [m]
SEED = 7
HANDS = ["left_panda_hand", "right_panda_hand"]
CONTACTS: tuple[tuple[str, str, list[str], Callable[[], World | None]], ...] = (
    ("Panda, itself", "panda", ["panda_hand"], lambda: None),
    ("Panda, itself and a table", "panda", ["panda_hand"], lambda: World({"table": TABLE})),
    ("Panda, itself and 20 boxes", "panda", ["panda_hand"], cluttered),
    ("two Pandas, themselves and each other", "dual_panda", HANDS, lambda: None),
)


@dataclass(frozen=True)
class Runs:
    """What is measured, and where.

    Attributes:
        report: Where figures go.
        device: The device.
        make: Makes a solver of a robot and targets on that device, or on the one that is given.
        count: Problems of each case.
        seconds: Time for the calls of each rate [s].
    """

    report: Report
    device: wp.Device
    make: Make
    count: int
    seconds: float

    def add(self, name: str, solver: ik_service.IKSolver, cpu: ik_service.IKSolver, *given: Any, **world: Any) -> Any:
        """Return the answers of a device, and the cells of a row: time, success, same seeds."""
        solve = partial(solver.solve, *given, **world)
        result, beside = solve(), cpu.solve(*given, **world)
        median = float(np.median(timed(self.device, solve, self.seconds)))
        same = (result.islands.seed_index == beside.islands.seed_index).all(axis=1).mean()
        cells = f"{1e6 * median:.0f}", f"{len(result.success) / median:,.0f}"
        return result, (name, *cells, f"{beside.success.mean():.2%}", f"{result.success.mean():.2%}", f"{same:.2%}")


HEADS = "case", "µs", "targets/s", "success on the CPU", "on the device", "same seeds"


def show_loops(runs: Runs, cases: tuple[Mechanism, ...] = MECHANISMS) -> None:
    """Report targets of mechanisms that close loops."""
    runs.report.section(
        "Loops",
        f"Targets of the end effectors of mechanisms, from {runs.count} random closed configurations. A success is "
        f"false where a loop is open by more than {CLOSED:g} m or the end effector is {NEAR:g} m off.",
    )
    runs.report.table(*HEADS, "largest gap [m]", "false")
    false = 0
    for case in cases:
        robot = ik_service.load_robot(case.name)
        wanted = mechanisms.pose(robot, case.configurations(runs.count, np.random.default_rng(SEED)), case.link)
        targets = [ik_service.Target(case.link, row_weights=case.axes)]
        given = mechanisms.arguments(case, wanted)
        solver, cpu = runs.make(robot, targets), runs.make(robot, targets, "cpu")
        result, cells = runs.add(case.name, solver, cpu, *given)
        gap, off = mechanisms.gaps(robot, result.joint_q), mechanisms.errors(case, robot, result.joint_q, wanted)
        wrong = int((result.success & ((gap > CLOSED) | (off > NEAR))).sum())
        false += wrong
        runs.report.row(*cells, f"{gap[result.success].max(initial=0.0):.1e}", wrong)
    runs.report.line("")
    runs.report.claim("false successes of mechanisms", f"{false}", "none", false == 0)


def show_contacts(runs: Runs) -> None:
    """Report targets whose answers have to be free of contact."""
    runs.report.section(
        "Contacts",
        f"Targets from {runs.count} random free configurations. A success is false where NumPy finds contact in "
        "float64, sphere by sphere.",
    )
    runs.report.table(*HEADS, "false")
    false = 0
    for name, file, links, scene in CONTACTS:
        robot, world = ik_service.load_robot(file), scene()
        poses = robot.forward_kinematics(free_configurations(robot, world, runs.count), links)
        given = poses.positions.astype(np.float32), poses.orientations_xyzw.astype(np.float32)
        solver, cpu = runs.make(robot, links), runs.make(robot, links, "cpu")
        result, cells = runs.add(name, solver, cpu, *given, world=world)
        wrong = int((result.success & ~robot.collision(result.joint_q.astype(float), world).is_free).sum())
        false += wrong
        runs.report.row(*cells, wrong)
    runs.report.line("")
    runs.report.claim("successes in contact", f"{false}", "none", false == 0)


def free_configurations(robot: RobotModel, world: World | None, count: int) -> Any:
    """Random configurations that are free of contact, [count, coordinates]."""
    return robot.random_free_joint_q(np.random.default_rng(SEED), count, world)
