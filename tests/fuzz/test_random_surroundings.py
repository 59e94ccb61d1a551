"""Random solves of robots of the package, with what may stand beside targets: worlds, objectives, tolerances, margins.

Of a success targets are within tolerances, limits are kept and nothing is in contact. A problem has the same bytes
alone, among others, in threads, and when a solver had other data in between, whatever has a line for each problem.

As evidence it makes SURROUNDINGS_KINDS kinds (60) of solves from FUZZ_SEED (0), each with SOLVES of them.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ik_service
from ik_service import IKResult, IKSolver, Target
from ik_service.mechanism.transforms import transform_multiply
from ik_service.result_schema import RESULT_COLUMNS
from ik_service.robots import Box, Capsule, Cylinder, Sphere, World
from ik_service.solver import recording
from ik_service.solver.given.targets import DATA
from objectives import IKError, IKObjectiveJointCentering, IKObjectiveLookAt, IKObjectivePosture
from tests.fuzz.tally import Tally

KINDS = int(os.environ.get("SURROUNDINGS_KINDS", "60"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
SOLVES = 30
QUICK, QUICK_SOLVES = (11, 16, 21), 12  # a tool and a point to look at, tolerances, a closed loop with weights
ROBOTS = ("panda", "panda", "dual_panda", "ur5e", "iiwa14", "panda_gripper", "humanoid", "four_bar", "delta")
COUNTS = (1, 2, 5, 17, 40)
LINKS_MOST = 2


def lines(rng, count, draw):
    return np.stack([draw() for _ in range(count)]) if rng.random() < 0.5 else draw()


def of_problem(value, problem):
    return value[problem] if np.ndim(value) == 2 else value


@dataclass
class Solve:
    positions: np.ndarray  # [n, targets, 3]
    orientations_xyzw: np.ndarray | None
    data: list[dict[str, np.ndarray]]  # of each target
    fields: list[np.ndarray | None]  # of each objective
    options: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)

    def part(self, problem: int) -> "Solve":
        own = slice(problem, problem + 1)
        turns = None if self.orientations_xyzw is None else self.orientations_xyzw[own]
        data = [{name: of_problem(value, problem) for name, value in one.items()} for one in self.data]
        fields = [None if value is None else of_problem(value, problem) for value in self.fields]
        start = self.arguments.get("initial_joint_q")
        arguments = self.arguments | ({} if start is None else {"initial_joint_q": of_problem(start, problem)})
        return Solve(self.positions[own], turns, data, fields, self.options, arguments)


class Kind:
    """Solves that need the same code: a robot, the rows of its targets, and objectives."""

    def __init__(self, rng: np.random.Generator, threads: int = 2) -> None:
        self.threads = threads
        self.robot = ik_service.load_robot(str(rng.choice(ROBOTS)))
        moving = [name for name in self.robot.link_names if self.robot.link_frame(name)[0] >= 0]
        hands = [name for name in moving if name.endswith("hand")] or moving[-3:]
        count = min(len(hands), int(rng.integers(1, LINKS_MOST + 1)))
        self.links = [str(name) for name in rng.choice(hands, count, replace=False)]
        self.has_tool, self.turns = rng.random(count) < 0.4, rng.random() < 0.75
        self.rows = [str(rng.choice(["all", "weighted", "tolerated"], p=[0.5, 0.3, 0.2])) for _ in self.links]
        self.masks = (rng.random((2, 6)) < 0.75) | (np.arange(6) == rng.integers(3))
        self.frame, self.is_open = str(rng.choice(["tool", "world", "target"])), rng.random(6) < 0.3
        self.turns = self.turns or "tolerated" in self.rows
        kinds = rng.choice(["posture", "centering", "look_at"], int(rng.choice([0, 1, 1, 2])), replace=False)
        self.objectives = [self.objective(str(kind), int(rng.random() < 0.75)) for kind in kinds]
        self.solver: IKSolver | None = None

    def objective(self, kind: str, priority: int) -> Any:
        made = {
            "posture": lambda: IKObjectivePosture(self.robot.mid_joint_q, weight=0.05),
            "centering": lambda: IKObjectiveJointCentering(0.01),
            "look_at": lambda: IKObjectiveLookAt(self.links[0], [1.0, 0.0, 0.5], weight=0.1),
        }[kind]()
        made.priority = priority
        return made

    def draw(self, rng: np.random.Generator) -> Solve:
        count, robot = int(rng.choice(COUNTS)), self.robot
        has_model = robot.collision_model is not None
        joint_q = robot.random_free_joint_q(rng, count) if has_model else robot.random_joint_q(rng, count)
        poses = robot.forward_kinematics(joint_q, self.links)
        T_world_target = np.concatenate([poses.positions, poses.orientations_xyzw], axis=2)
        data = [self.target_data(rng, count, k) for k in range(len(self.links))]
        for k, own in enumerate(data):
            if "offset" in own:
                T_world_target[:, k] = transform_multiply(T_world_target[:, k], np.atleast_2d(own["offset"]))
        T_world_target[..., :3] += rng.normal(size=3) * (0.2 if rng.random() < 0.2 else 0.0)
        fields: list[np.ndarray | None] = []
        for one in self.objectives:
            draws = {
                IKObjectivePosture: lambda: robot.random_joint_q(rng, 1)[0],
                IKObjectiveLookAt: lambda: rng.normal(size=3),
            }
            draw = draws.get(type(one))
            fields.append(None if draw is None else lines(rng, count, draw))
        options, arguments = self.options(rng, has_model), {}
        if rng.random() < 0.4:
            arguments["initial_joint_q"] = lines(rng, count, lambda: robot.random_joint_q(rng, 1)[0])
            if rng.random() < 0.3 and not robot.quaternion_starts:  # rotations of a floating base have no limits
                arguments["max_change"] = float(rng.uniform(0.3, 2.0))
        if has_model and options.get("collision") != "off" and rng.random() < 0.5:
            arguments["world"] = World({f"object {k}": obstacle(rng) for k in range(int(rng.integers(1, 5)))})
        turns = T_world_target[..., 3:] if self.turns else None
        return Solve(T_world_target[..., :3], turns, data, fields, options, arguments)

    def target_data(self, rng: np.random.Generator, count: int, target: int) -> dict[str, np.ndarray]:
        found, rows = {}, self.rows[target]
        if self.has_tool[target]:
            found["offset"] = lines(rng, count, lambda: tool(rng))
        if rows == "weighted":
            weights = (0.3, 1.0, 5.0)
            found["row_weights"] = lines(rng, count, lambda: rng.choice(weights, 6) * self.masks[rng.integers(2)])
        if rows == "tolerated":
            found["tolerance"] = lines(rng, count, lambda: self.tolerance(rng))
        return found

    def tolerance(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a tolerance; beside a free rotation the other two are alike."""
        allowed = rng.choice((0.02, 0.05, 0.3), 6)
        allowed[3:] = allowed[3]
        return np.where(self.is_open, np.inf, allowed)

    def options(self, rng: np.random.Generator, has_model: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"random_seed": int(rng.integers(100))}
        best = ["cost", "nearest", "clearance"] if has_model else ["cost", "nearest"]
        for name, share, values in (
            ("seeds", 0.4, [1, 4, 16, 64]),
            ("best_of", 0.3, best),
            ("solutions", 0.25, [2, 5]),
            ("sampler", 0.2, ["uniform", "gauss", "none"]),
            ("approximate", 0.2, ["nearest"]),
            ("margin", 0.2 * has_model, [0.005, 0.03]),
        ):
            if rng.random() < share:
                options[name] = rng.choice(values).item()
        if self.robot.constraint_names:  # always of float64, which gives one solution
            options.pop("solutions", None)
        elif "solutions" not in options and rng.random() < 0.25:
            options["precision"] = "float64"
        if has_model and options.get("best_of") != "clearance" and rng.random() < 0.15:
            options["collision"] = "off"
        return options

    def solve(self, given: Solve, *, once: bool = False) -> IKResult:
        """Solve with data of targets that the solver keeps, or that are of this solve alone."""
        if self.solver is None:
            frames = [{"frame": self.frame} if rows == "tolerated" else {} for rows in self.rows]
            each = zip(self.links, given.data, frames, strict=True)
            targets = [Target(link, **own, **frame) for link, own, frame in each]
            self.solver = IKSolver(self.robot, targets, objectives=self.objectives, device="cpu", threads=self.threads)
        data = {name: [own.get(name) for own in given.data] for name in DATA} if once else {}
        arguments = given.arguments | {name: one if len(one) > 1 else one[0] for name, one in data.items()}
        for k, own in enumerate(() if once else given.data):
            if own:
                self.solver.set_target_data(k, **own)
        for one, value in zip(self.objectives, given.fields, strict=True):
            if value is not None:
                one.set_data("joint_q_reference" if isinstance(one, IKObjectivePosture) else "target_points", value)
        return self.solver.solve(given.positions, given.orientations_xyzw, options=given.options, **arguments)


def tool(rng):
    pose = rng.normal(size=7)
    return np.concatenate([0.05 * pose[:3], pose[3:] / np.linalg.norm(pose[3:])])


def obstacle(rng):
    pose = tool(rng)
    pose[:3] = rng.uniform([-0.7, -0.7, 0.0], 0.7)
    size = float(rng.uniform(0.05, 0.4))
    shapes = [Sphere(0.3 * size, tuple(pose[:3])), Capsule(0.04, size, tuple(pose)), Cylinder(0.05, size, tuple(pose))]
    return [*shapes, Box((size, 0.1, 0.2), tuple(pose))][rng.integers(4)]


def faults_of(kind: Kind, given: Solve, result: IKResult) -> list[str]:
    robot, found, good = kind.robot, [], result.success
    joint_q = result.joint_q.astype(float)
    poses = robot.forward_kinematics(joint_q, kind.links)
    for k, own in enumerate(given.data):
        T_world_target = np.concatenate([poses.positions[:, k], poses.orientations_xyzw[:, k]], axis=1)
        if "offset" in own:
            T_world_target = transform_multiply(T_world_target, np.atleast_2d(own["offset"]))
        on = np.broadcast_to(own.get("row_weights", np.ones(6)), (len(good), 6)) > 0.0
        away = np.where(on[:, :3], T_world_target[:, :3] - given.positions[:, k], 0.0)
        if "tolerance" not in own and (np.linalg.norm(away, axis=1)[good] > 1.0001e-3).any():
            found.append("a success is off its position")
        if "tolerance" not in own and given.orientations_xyzw is not None:
            cosine = np.abs((T_world_target[:, 3:] * given.orientations_xyzw[:, k]).sum(axis=1)).clip(0.0, 1.0)
            if (2.0 * np.arccos(cosine[good & on[:, 3:].all(axis=1)]) > 1.001e-2).any():
                found.append("a success is off its orientation")
    own = robot.dof_coordinate >= 0
    values = joint_q[:, robot.dof_coordinate[own]]
    if ((values < robot.joint_limit_lower[own] - 1e-6) | (values > robot.joint_limit_upper[own] + 1e-6)).any():
        found.append("a limit is broken")
    if result.clearance is not None:
        clearance = robot.collision(joint_q, given.arguments.get("world")).clearance[good]
        if ((clearance <= 0.0) | (clearance < given.options.get("margin", 0.0))).any():
            found.append("a success is in contact")
    if result.constraint_error is not None and (result.constraint_error[good] > 1e-6).any():
        found.append("a success has an open loop")
    return found


def differing(result: IKResult, other: IKResult, problems: slice) -> list[str]:
    pairs = ((column.name, getattr(result, column.name), getattr(other, column.name)) for column in RESULT_COLUMNS)
    return [name for name, one, two in pairs if one is not None and one[problems].tobytes() != two.tobytes()]


def try_kind(number: int, random_seed: int, solves: int, tally: Tally) -> None:
    """Solve with one solver, each time also with one problem alone and again; at the end also with a new solver."""
    kind, fresh = (Kind(np.random.default_rng([random_seed, number]), threads) for threads in (2, 1))
    for k in range(solves):
        rng = np.random.default_rng([random_seed, number, k])
        given, place = kind.draw(rng), f"kind {number} ({kind.robot.name}), solve {k}"
        try:
            result = kind.solve(given)
            one = int(rng.integers(len(result)))
            alone, again = kind.solve(given.part(one)), kind.solve(given, once=True)
        except IKError as error:
            tally.faults.append(f"{place}: {error}")
            continue
        tally.faults += [f"{place}: {fault}" for fault in faults_of(kind, given, result)]
        tally.faults += [f"{place}: {name} alone" for name in differing(result, alone, slice(one, one + 1))]
        tally.faults += [f"{place}: {name} again" for name in differing(result, again, slice(None))]
        tally.update(problems=len(result), successes=int(result.success.sum()))
    tally.faults += [f"{place}: {name} of a new solver" for name in differing(result, fresh.solve(given), slice(None))]


def test_some_kinds_of_solves(monkeypatch):
    monkeypatch.setattr(recording, "PART_MIN", 8)  # so that two threads share few problems
    tally = Tally()
    for number in QUICK:
        try_kind(number, 0, QUICK_SOLVES, tally)
    assert tally.faults == []
    assert 0.3 * tally["problems"] < tally["successes"]


@pytest.mark.evidence
def test_many_kinds_of_solves():
    tally = Tally()
    for number in range(KINDS):
        try_kind(number, SEED, SOLVES, tally)
    tally.tell()
    assert tally.faults == []
    assert 0.3 * tally["problems"] < tally["successes"]
