"""The best of many candidates: grasps of mugs by `solve_any`, beside a solve of every candidate; reach map and bases.

a scene of 10 080 grasps, four groups -> `solve_any` by each criterion -> time of one scene
the same of `solve` with 256 seeds of every candidate and a choice in NumPy
both over many scenes -> groups whose value is within 1 %; answers judged on the host in float64
poses of a Panda's box, pairs of bases and grasps -> `solve` with want="success" -> time
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ik_service
from benchmarks.accuracy.unreachable import box, turned
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.grasp_scene import LINK, GraspScene, grasp_scene
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service.mechanism.transforms import transform_inverse, transform_multiply
from ik_service.robots import Box, World
from ik_service.solver.candidates import FATES

SEEDS = 256  # of every candidate
NOW = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # where the arm stands [rad]
POSITION, ORIENTATION, ROUNDING = 1e-3, 1e-2, 1e-6  # tolerances [m], [rad]; of float32, and 1 um of a clearance
VIA = "nearest with via"
VIA_CHANGE = 1.0  # from the grasp back to the pose before [rad]
BOUNDS_MS: Mapping[str, float | None] = {
    "first": 2.0,
    "nearest": 40.0,
    VIA: None,
    "clearance": 70.0,
    "manipulability": 70.0,
    "limit_margin": None,
}
BLOCKED_MS = 60.0
OPTIONS: Mapping[str, dict[str, object]] = {
    "first": {},
    "nearest": {"best_of": "nearest"},
    VIA: {"best_of": "nearest"},
    "clearance": {"best_of": "clearance"},
    "manipulability": {"best_of": "cost", "solutions": SEEDS},  # all seeds are run, all solutions kept
    "limit_margin": {"best_of": "cost", "solutions": SEEDS},
}
"""Options of a solve of every candidate."""
SHARE, LOSS = 0.995, 0.01  # of groups, and of the value
COMPARED = ("nearest", "clearance")  # criteria with a bound of the share
TIMED_SCENE = 1  # of grasp_scene: each mug has a grasp
WARM_UP = 6  # calls before: launches of a size that comes again are recorded then
GRASPS = 600  # of each base
REACH_S, BASES_S = 1.3, 0.4
REACH_REPEATS = 3
Float64Array = NDArray[np.float64]


class Choice(NamedTuple):
    """The candidate of each group, -1 for none, and its value."""

    candidate: NDArray[np.integer]
    value: Float64Array


@dataclass(frozen=True)
class GraspJob:
    """The grasps of a scene, and a solver."""

    scene: GraspScene
    solver: ik_service.IKSolver

    @cached_property
    def given(self) -> dict[str, Any]:
        """The arguments of both calls beside the poses."""
        return {"initial_joint_q": NOW, "world": self.scene.world, "object_enabled": self.scene.object_enabled}

    def any(self, name: str) -> ik_service.CandidateResult:
        """Return the best candidate of each group by a criterion."""
        scene = self.scene
        via = (scene.before, scene.orientations_xyzw, VIA_CHANGE) if name == VIA else None
        criterion: Any = "nearest" if name == VIA else name
        poses = scene.positions, scene.orientations_xyzw
        return self.solver.solve_any(*poses, group=scene.group, criterion=criterion, via=via, **self.given)

    def solved(self, name: str) -> ik_service.IKResult:
        """Return the answers of every candidate."""
        poses = self.scene.positions, self.scene.orientations_xyzw
        return self.solver.solve(*poses, options={"seeds": SEEDS} | OPTIONS[name], **self.given)

    def of_all(self, name: str, result: ik_service.IKResult | None = None) -> Choice:
        """Return the best candidate of each group of the answers of every candidate, None to solve for these."""
        result = self.solved(name) if result is None else result
        value = self._best_values(name, result)
        if name == VIA:
            value[result.success] += self._cost_of_via(result)
        groups = [np.flatnonzero(self.scene.group == k) for k in range(self.scene.group.max() + 1)]
        best = np.array([own[value[own].argmin()] for own in groups])
        return Choice(np.where(np.isfinite(value[best]), best, -1), value[best])

    def value_of(self, name: str, joint_q: NDArray[Any], own: NDArray[np.integer]) -> Float64Array:
        """Return values of configurations [n, coordinates] of candidates `own` by a criterion, in float64."""
        robot, joint_q = self.solver.robot, joint_q.astype(np.float64)
        if name == "first":
            return np.zeros(len(joint_q))
        if name == "clearance":
            return -robot.collision(joint_q, self.scene.world, self.scene.object_enabled[own]).clearance
        if name == "manipulability":
            return -robot.manipulability(joint_q, LINK)
        if name == "limit_margin":
            room = np.minimum(joint_q - robot.active_limit_lower, robot.active_limit_upper - joint_q)
            return np.asarray(-room.min(axis=1))
        return np.asarray(np.abs(joint_q - NOW).max(axis=1))

    def wrong(self, name: str, found: ik_service.CandidateResult) -> int:
        """Return how many answers are none, judged on the host in float64."""
        own, scene = found.candidate[found.success], self.scene
        joint_q, value = found.joint_q[found.success].astype(float), found.value[found.success]
        sound = self._are_met(joint_q, own, scene.positions)
        sound &= np.abs(self.value_of(name, joint_q, own) - value) < ROUNDING
        sound &= scene.group[own] == np.flatnonzero(found.success)
        if found.via_joint_q is not None:
            second = found.via_joint_q[found.success].astype(float)
            sound &= self._are_met(second, own, scene.before)
            sound &= np.abs(second - joint_q).max(axis=1) <= VIA_CHANGE + ROUNDING
        return int(np.count_nonzero(~sound))

    def _best_values(self, name: str, result: ik_service.IKResult) -> Float64Array:
        """Return the value of each candidate, of several solutions the least; infinity without success."""
        if name == "clearance":
            return np.where(result.success, -result.clearance, np.inf)
        joint_q = result.joint_q[:, None] if result.solutions is None else result.solutions
        lines, place = np.nonzero(np.isfinite(joint_q).all(axis=2) & result.success[:, None])
        value = np.full(joint_q.shape[:2], np.inf)
        value[lines, place] = self.value_of(name, joint_q[lines, place], lines)
        return np.asarray(value.min(axis=1))

    def _cost_of_via(self, result: ik_service.IKResult) -> Float64Array:
        """Return 0 for each success from which the second pose is reached, infinity for others, [successes]."""
        own = np.flatnonzero(result.success)
        given = self.given | {"initial_joint_q": result.joint_q[own], "max_change": VIA_CHANGE}
        given["object_enabled"] = self.scene.object_enabled[own]
        poses = self.scene.before[own], self.scene.orientations_xyzw[own]
        return np.where(self.solver.solve(*poses, options={"seeds": SEEDS}, **given).success, 0.0, np.inf)

    def _are_met(self, joint_q: Float64Array, own: NDArray[np.integer], positions: Float64Array) -> NDArray[np.bool_]:
        scene, robot = self.scene, self.solver.robot
        is_free = robot.collision(joint_q, scene.world, scene.object_enabled[own]).is_free
        return is_free & are_met(robot, joint_q, positions[own], scene.orientations_xyzw[own])


def are_met(
    robot: ik_service.RobotModel, joint_q: Float64Array, positions: Float64Array, orientations_xyzw: Float64Array
) -> NDArray[np.bool_]:
    """Return the mask of configurations within limits that meet their targets, by float64 kinematics of the host."""
    hand = robot.forward_kinematics(joint_q, [LINK])
    unit = orientations_xyzw / np.linalg.norm(orientations_xyzw, axis=1, keepdims=True)
    cosine = np.abs((hand.orientations_xyzw[:, 0] * unit).sum(axis=1))
    off = np.linalg.norm(hand.positions[:, 0] - positions, axis=1)
    lower, upper = robot.active_limit_lower, robot.active_limit_upper
    inside = ((joint_q >= lower - ROUNDING) & (joint_q <= upper + ROUNDING)).all(axis=1)
    return np.asarray((off <= POSITION) & (2.0 * np.arccos(np.minimum(cosine, 1.0)) <= ORIENTATION) & inside)


def blocked(scene: GraspScene) -> GraspScene:
    """Return a scene with a box around each mug, which blocks the hand of every candidate."""
    objects = dict(scene.world.objects)
    for name in [name for name in objects if name.startswith("mug")]:
        pose = objects[name].pose
        objects[f"box around {name}"] = Box((0.16, 0.16, 0.2), pose)
    enabled = np.ones((len(scene.positions), len(objects)), bool)
    enabled[:, : scene.object_enabled.shape[1]] = scene.object_enabled
    return GraspScene(World(objects), *(scene.positions, scene.orientations_xyzw, scene.group), enabled, scene.before)


def show(report: Report, *, repeats: int, scenes: int, poses: int) -> None:
    """Measure all tables."""
    solver = ik_service.IKSolver(ik_service.load_robot("panda"), [LINK], device="cpu", threads=1)
    _show_times(report, solver, repeats)
    _show_values(report, solver, scenes)
    _show_reach(report, poses)
    _show_bases(report, solver, repeats)


def _show_times(report: Report, solver: ik_service.IKSolver, repeats: int) -> None:
    job = GraspJob(grasp_scene(TIMED_SCENE), solver)
    report.section(
        f"One scene of {len(job.scene.positions)} grasps, four groups",
        f"CPU time of a call [ms], median and range of {repeats}; beside it a solve of every candidate with {SEEDS} "
        "seeds and the choice in NumPy, once. In the last line the hand is blocked at every candidate.",
        *("criterion", "ms", "range", "candidates solved", "every candidate, ms"),
    )
    for name, bound in BOUNDS_MS.items():
        _show_time(report, name, job, name, repeats, bound)
    _show_time(report, "all blocked, nearest", GraspJob(blocked(job.scene), solver), "nearest", repeats, BLOCKED_MS)


def _show_time(report: Report, title: str, job: GraspJob, name: str, repeats: int, bound: float | None) -> None:
    found, times = timed(partial(job.any, name), repeats, 1000, warm_up=WARM_UP)
    _, whole = timed(partial(job.of_all, name), 1, 1000)
    solved = found.counts.sum(axis=0)[FATES.index("solved")]
    report.row(title, f"{times.median:.1f}", times.range(1), solved, f"{whole.median:.0f}")
    if bound is not None:
        report.claim(title, f"{times.median:.1f} ms", f"{bound:g} ms", times.median <= bound)


def _show_values(report: Report, solver: ik_service.IKSolver, scenes: int) -> None:
    report.section(
        f"Values in {scenes} scenes",
        f"Groups with an answer; of them, groups whose value is within {LOSS:.0%} of the best value that a solve of "
        f"every candidate with {SEEDS} seeds finds (manipulability and limit margin: of all solutions of these seeds); "
        "groups without an answer where that solve has one, and the other way round. Answers are judged on the host "
        "in float64: targets, contact, limits, value and second pose.",
        *("criterion", "groups", f"within {LOSS:.0%}", "better", "largest loss", "missed", "only here", "wrong"),
    )
    tallies = {name: Tally() for name in BOUNDS_MS}
    for seed in range(scenes):
        job = GraspJob(grasp_scene(seed), solver)
        for _, names in groupby(BOUNDS_MS, lambda name: str(OPTIONS[name])):  # criteria of one solve
            result = None
            for name in names:
                result = job.solved(name) if result is None else result
                found = job.any(name)
                tallies[name].add(found, job.of_all(name, result), job.wrong(name, found))
    for name, tally in tallies.items():
        report.row(name, *tally.cells())
        if name in COMPARED:
            share = f"{100 * tally.share:.2f} %"
            report.claim(f"{name}: groups within {LOSS:.0%}", share, f"{SHARE:.1%}", tally.share >= SHARE)
    wrong, answers = (sum(getattr(tally, what) for tally in tallies.values()) for what in ("wrong", "answers"))
    report.claim("wrong answers", f"{wrong} of {answers}", "0", wrong == 0)


class Tally:
    """Groups of many scenes, counted."""

    def __init__(self) -> None:
        self.losses: list[float] = []  # of groups with both answers, as a share of the value
        self.missed = self.only_here = self.wrong = self.answers = 0

    def add(self, found: ik_service.CandidateResult, best: Choice, wrong: int) -> None:
        """Count the groups of a scene."""
        both = found.success & (best.candidate >= 0)
        value, least = found.value[both], best.value[both]
        scale = np.maximum(np.abs(least), 1e-9)
        self.losses += ((value - least) / scale).tolist()
        self.missed += int(np.count_nonzero(~found.success & (best.candidate >= 0)))
        self.only_here += int(np.count_nonzero(found.success & (best.candidate < 0)))
        self.wrong, self.answers = self.wrong + wrong, self.answers + int(found.success.sum())

    @property
    def share(self) -> float:
        """The share of groups with a value that is as good as the other, within the loss."""
        good = sum(loss <= LOSS for loss in self.losses) + self.only_here
        return good / max(len(self.losses) + self.missed + self.only_here, 1)

    def cells(self) -> list[str]:
        """Return the cells of a row."""
        better = sum(loss < -LOSS for loss in self.losses)
        counts = [f"{100 * self.share:.2f} %", f"{better}", f"{100 * max(self.losses):.1f} %"]
        return [f"{self.answers}", *counts, f"{self.missed}", f"{self.only_here}", f"{self.wrong}"]


def _show_reach(report: Report, poses: int) -> None:
    given = box(PANDA, poses, np.random.default_rng(0))
    report.section(
        f"Reach of {poses} random poses in a Panda's box",
        f'`want="success"`, CPU time of a call [s], median and range of {REACH_REPEATS}. The host judges successes.',
        *("case", "s", "range", "within reach", "proven of the others", "wrong"),
    )
    free = ik_service.load_robot("panda")
    for name, robot, options, bound in (
        ("arm alone, 64 seeds", PANDA.robot, {"seeds": 64}, REACH_S),
        ("arm alone, default", PANDA.robot, {}, None),
        ("kept off itself, 64 seeds", free, {"seeds": 64}, None),
        ("kept off itself, default", free, {}, None),
    ):
        solver = ik_service.IKSolver(robot, [LINK], device="cpu", threads=1)
        call = partial(solver.solve, *given, options={"want": "success"} | options)
        result, times = timed(call, REACH_REPEATS, 1_000_000)
        own = np.flatnonzero(result.success)
        wrong = np.count_nonzero(~are_met(robot, result.joint_q[own].astype(float), *(array[own] for array in given)))
        proven = np.count_nonzero(result.proof > 0) / max(len(result) - len(own), 1)
        shares = f"{100 * result.success.mean():.3f} %", f"{100 * proven:.1f} %"
        report.row(name, f"{times.median:.2f}", times.range(), *shares, wrong)
        if bound is not None:
            passed = times.median <= bound and wrong == 0
            report.claim(name, f"{times.median:.2f} s, {wrong} wrong", f"{bound:g} s, 0 wrong", passed)


def _show_bases(report: Report, solver: ik_service.IKSolver, repeats: int) -> None:
    positions, orientations_xyzw, group = seen_from_bases()
    count = len(group) // GRASPS
    report.section(
        f"{count} bases, {GRASPS} grasps",
        f"Grasps from above in a room, bases on a grid, kept off itself. CPU time of a call [s], median and range of "
        f"{repeats}: the number of grasps of each base by a solve of all pairs, and by `solve_any` with a group for "
        "each base.",
        *("call", "s", "range", "best base", "bases without a grasp"),
    )

    def numbers(**options: int) -> NDArray[np.intp]:
        result = solver.solve(positions, orientations_xyzw, options={"want": "success"} | options)
        return np.bincount(group, weights=result.success, minlength=count).astype(int)

    for name, options in (("64 seeds", {"seeds": 64}), ("default", {})):
        title = f"grasps of each base, {name}"
        grasps, times = timed(partial(numbers, **options), repeats, 1_000_000)
        best = f"{grasps.argmax()}, {grasps.max()} grasps"
        report.row(title, f"{times.median:.2f}", times.range(), best, np.count_nonzero(grasps == 0))
        if options:
            report.claim(title, f"{times.median:.2f} s", f"{BASES_S:g} s", times.median <= BASES_S)
    for criterion in ("first", "manipulability"):
        call = partial(solver.solve_any, positions, orientations_xyzw, group=group, criterion=criterion)
        found, times = timed(call, repeats, 1_000_000)
        told = f"{np.nanargmin(found.value)}, value {np.nanmin(found.value):.3f}"
        without = np.count_nonzero(~found.success)
        report.row(f"`solve_any`, {criterion}", f"{times.median:.2f}", times.range(), told, without)


def seen_from_bases() -> tuple[Float64Array, Float64Array, NDArray[np.intp]]:
    """Return grasps as seen from bases, positions and orientations of all pairs, and the base of each."""
    rng = np.random.default_rng(0)
    down = np.array([1.0, 0.0, 0.0, 0.0])
    leans = turned(np.tile(down, (GRASPS, 1)), rng.uniform(0.0, 0.8, GRASPS), rng)
    grasps = np.hstack([rng.uniform([0.8, 0.2, 0.1], [1.8, 1.2, 0.6], (GRASPS, 3)), leans])
    x, y, yaw = (axis.ravel() for axis in np.meshgrid(np.arange(0.4, 2.3, 0.2), np.arange(-0.2, 1.7, 0.2), [0, 2, 4]))
    zero = np.zeros(len(x))
    bases = np.column_stack([x, y, zero, zero, zero, np.sin(yaw / 2), np.cos(yaw / 2)])
    seen = transform_multiply(transform_inverse(bases)[:, None], grasps).reshape(-1, 7)
    return seen[:, :3], seen[:, 3:], np.repeat(np.arange(len(bases)), GRASPS)


if __name__ == "__main__":
    sizes = {"repeats": (5, 15), "scenes": (10, 200), "poses": (100_000, 1_000_000)}
    benchmark("The best of many candidates", show, sizes=sizes)
