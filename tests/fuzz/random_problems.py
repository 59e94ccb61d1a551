"""Random problems of a robot: which links are to go where, with which frames, weights, starts and options."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service import RobotModel, Target
from tests.fuzz.judge import SCALAR, Array, Columns, Judge, Pose, apart, composed, quaternion_of, rotation_of, seen_from

PLACES = np.array([1e-40, 0.0, -0.0, 5.0, 1e3, 1e6])  # sizes of positions that nobody meant [m]
TURNS = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, -1.0]])
OUTSIDE = np.array([0.1, 10.0, 1e4, 1e8])  # how far starts lie outside the limits [m or rad]
WIDEST = 4.0  # narrower limits of joints without any lie between these [m or rad]
CHANGES = np.array([0.0, 1e-9, 1e-3, 0.1, 1.0, 30.0])  # largest ones from the start [m or rad]
LARGEST = 9e8  # the service takes numbers up to 1e9
OFF_UNIT = 9e-4  # quaternions are taken up to 1e-3 off unit length
TOLERANCES = (1e-320, 1e-12, 1e-6, 1e-4, 1e-3, 1e-2, 0.3, 1e9)
USUAL_TOLERANCES = (1e-5, 1e-4, 1e-3)
WEIGHTS = (0.1, 1.0, 10.0)
KINDS = ("reachable", "near", "odd", "any orientation", "negated")


@dataclass(frozen=True)
class Task:
    """What a link is to do: a target, whether its offset is "none", "one" or "many", and which rows count.

    Patterns of rows are bool [patterns, 6]; one line where the weights are the same for all problems.
    """

    link: str
    reference_link: str | None
    offsets: str
    patterns: NDArray[np.bool_]

    @classmethod
    def draw(cls, rng: np.random.Generator, judge: Judge, most_patterns: int = 3) -> "Task":
        """A task for a link, mostly one that moves; its rows count by up to so many patterns."""
        moving = [link for link in judge.links if judge.movable(link)]
        link = str(rng.choice(moving if rng.random() < 0.95 else judge.links))
        others = [name for name in judge.links if name != link]
        reference = str(rng.choice(others)) if others and rng.random() < 0.2 else None
        patterns = np.ones((1, 6), dtype=bool)
        if rng.random() < 0.4:
            patterns = rng.random((int(rng.integers(1, most_patterns + 1)), 6)) < 0.7
            patterns[~patterns.any(axis=1)] = True
        return cls(link, reference, str(rng.choice(["none", "none", "one", "many"])), patterns)

    def data(self, rng: np.random.Generator, count: int) -> tuple[Array | None, Array | None]:
        """Offset and row weights for so many problems; None where all are the plain ones."""
        offset = weights = None
        if self.offsets != "none":
            lines = 1 if self.offsets == "one" else count
            turns = rng.normal(size=(lines, 4))
            turns *= rng.uniform(1 - OFF_UNIT, 1 + OFF_UNIT, (lines, 1)) / np.linalg.norm(turns, axis=1, keepdims=True)
            offset = np.hstack([rng.uniform(-0.2, 0.2, (lines, 3)), turns])
        if len(self.patterns) > 1:
            chosen = rng.integers(len(self.patterns), size=count)
            weights = np.where(self.patterns[chosen], rng.choice(WEIGHTS, size=(count, 6)), 0.0)
        elif not self.patterns.all():
            weights = np.where(self.patterns, rng.choice(WEIGHTS, size=(1, 6)), 0.0)
        return offset, weights

    def poses(self, judge: Judge, columns: Columns, offset: Array | None) -> Pose:
        frames = judge.poses([self.link] + ([self.reference_link] if self.reference_link else []), columns)
        pose = frames[0]
        if offset is not None:
            pose = composed(pose, (offset[:, :3], rotation_of(offset[:, 3:])))
        return pose if self.reference_link is None else seen_from(frames[1], pose)


@dataclass
class Problems:
    """One batch of problems: what a solve is given; limits by names of joints, with a line for each problem."""

    kind: str
    positions: list[Array | None]
    orientations_xyzw: list[Array | None]
    offsets: list[Array | None]
    weights: list[Array | None]
    start: Array | None
    options: dict[str, Any] = field(default_factory=dict)
    joint_limits: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    frozen: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    max_change: dict[str, Array] = field(default_factory=dict)

    def lines(self, chosen: NDArray[np.intp]) -> "Problems":
        count = next(len(a) for a in (*self.positions, *self.orientations_xyzw) if a is not None)

        def of(arrays: list[Array | None]) -> list[Array | None]:
            return [a if a is None or len(a) != count else a[chosen] for a in arrays]

        start = None if self.start is None else self.start[chosen]
        columns = of(self.positions), of(self.orientations_xyzw), of(self.offsets), of(self.weights)
        return Problems(
            self.kind,
            *columns,
            start,
            self.options,
            {name: (lower[chosen], upper[chosen]) for name, (lower, upper) in self.joint_limits.items()},
            {name: stays[chosen] for name, stays in self.frozen.items()},
            {name: most[chosen] for name, most in self.max_change.items()},
        )

    def limits(self) -> dict[str, Any]:
        """The limits as arguments of a solve; of the kinds that there are."""
        kinds = {"joint_limits": self.joint_limits, "frozen": self.frozen, "max_change": self.max_change}
        return {name: given for name, given in kinds.items() if given}

    def targets(self, tasks: list[Task]) -> list[Target]:
        return [
            Target(task.link, offset=offset, reference_link=task.reference_link, row_weights=weights)
            for task, offset, weights in zip(tasks, self.offsets, self.weights, strict=True)
        ]


def draw_problems(rng: np.random.Generator, judge: Judge, robot: RobotModel, tasks: list[Task], count: int) -> Problems:
    """A batch of problems: poses of random configurations, then changed by their kind."""
    columns = judge.draw(rng, count)
    kind = str(rng.choice(KINDS))
    data = [task.data(rng, count) for task in tasks]
    offsets, weights = [offset for offset, _ in data], [weight for _, weight in data]
    positions: list[Array | None] = []
    orientations: list[Array | None] = []
    for task, offset in zip(tasks, offsets, strict=True):
        position, rotation = task.poses(judge, columns, offset)
        position, orientation = changed(rng, kind, position, quaternion_of(rotation))
        positions.append(position)
        orientations.append(orientation)
    left_out = rng.random()
    if left_out < 0.2:
        (orientations if left_out < 0.12 else positions)[int(rng.integers(len(tasks)))] = None
    problems = Problems(kind, positions, orientations, offsets, weights, draw_start(rng, judge, robot, count))
    if rng.random() < 0.4:
        draw_limits(rng, judge, problems, count)
    return problems


def draw_limits(rng: np.random.Generator, judge: Judge, problems: Problems, count: int) -> None:
    """Give a batch limits of its own: narrower ones, or largest changes from its starts, and joints that stay there."""
    spans, near = judge.spans(), problems.start is not None and rng.random() < 0.5
    for joint in judge.scalars:
        if joint.leader or rng.random() < 0.4:
            continue
        ends = [(joint.lower, joint.upper), spans.get(joint.name, (-np.inf, np.inf))]
        lower = np.clip(max(low for low, _ in ends), -WIDEST, WIDEST)
        upper = np.clip(min(high for _, high in ends), lower, WIDEST)
        if near:
            problems.max_change[joint.name] = rng.choice(CHANGES, size=count)
        else:
            inside = np.sort(rng.uniform(lower, upper, (2, count)), axis=0)
            inside[:, rng.random(count) < 0.1] = lower  # no room at all
            problems.joint_limits[joint.name] = (inside[0], inside[1])
        if problems.start is not None and rng.random() < 0.3:
            problems.frozen[joint.name] = rng.random(count) < 0.5


def changed(rng: np.random.Generator, kind: str, position: Array, turn: Array) -> tuple[Array, Array]:
    count = len(position)
    if kind == "near":
        position = position + rng.normal(size=(count, 3)) * rng.choice([0.01, 0.3, 3.0], size=(count, 1))
    elif kind == "odd":
        far, still = rng.random(count) < 0.3, rng.random(count) < 0.3
        sizes = rng.choice(PLACES, size=(count, 1))
        position = np.where(far[:, None], rng.uniform(-1, 1, (count, 3)) * sizes, position)
        turn = np.where(still[:, None], TURNS[rng.integers(len(TURNS), size=count)], turn)
    elif kind == "any orientation":
        turn = rng.normal(size=(count, 4))
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    elif kind == "negated":
        turn = -turn * rng.uniform(1 - OFF_UNIT, 1 + OFF_UNIT, (count, 1))
    return position, turn


def draw_start(rng: np.random.Generator, judge: Judge, robot: RobotModel, count: int) -> Array | None:
    choice = rng.random()
    if choice < 0.5:
        return None
    columns = judge.draw(rng, count)
    if choice > 0.75:
        for joint in judge.joints.values():
            for name in joint.columns if joint.kind in (*SCALAR, "planar") else joint.columns[:-4]:
                away = rng.normal(size=count) * rng.choice(OUTSIDE, size=count)
                columns[name] = np.clip(columns[name] + away, -LARGEST, LARGEST)
    return np.column_stack([columns[name] for name in robot.coordinate_names])


def draw_options(rng: np.random.Generator, kind: str) -> tuple[dict[str, Any], bool]:
    """Options of a solve, and whether many of its problems will spend all of their seeds."""
    rare = rng.random() < 0.25
    tolerances = TOLERANCES if rare else USUAL_TOLERANCES
    options: dict[str, Any] = {
        "position_tolerance": float(rng.choice(tolerances)),
        "orientation_tolerance": float(rng.choice(tolerances)),
        "random_seed": int(rng.integers(2**32)),
    }
    if rng.random() < 0.5:
        options["seeds"] = int(rng.choice([1, 2, 8, 16]))
    if rng.random() < 0.3:
        options["max_iterations"] = int(rng.choice([1, 5, 100]))
    choice = rng.random()
    if choice < 0.1:
        options |= {"best_of": str(rng.choice(["cost", "nearest"]))}
    elif choice < 0.2:
        options |= {"solutions": int(rng.integers(2, 9)), "seeds": 16}
    elif choice < 0.35:
        options |= {"precision": "float64"}
    if rng.random() < 0.2:
        options |= {
            "sampler": str(rng.choice(["uniform", "gauss", "none"])),
            "noise_std": float(rng.choice([1e-3, 1.0])),
        }
    return options, rare or choice < 0.2 or kind in ("near", "odd", "any orientation")


def errors_of(
    judge: Judge, task: Task, columns: Columns, problems: Problems, number: int, *, chords: bool = False
) -> tuple[Array, Array]:
    """Errors of position [m] and orientation [rad] of one target, NaN where nothing counts, each [n].

    Axes that do not count are left out of chords, as controllers do, or of angles.
    """
    count = len(next(iter(columns.values())))
    pose = task.poses(judge, columns, problems.offsets[number])
    position, turn = problems.positions[number], problems.orientations_xyzw[number]
    goal = (
        np.zeros((1, 3)) if position is None else position,
        np.eye(3)[None] if turn is None else rotation_of(turn),
    )
    weights = problems.weights[number]
    counts = np.broadcast_to(True if weights is None else weights > 0.0, (count, 6))
    distance, angle = apart(pose, goal)
    away = np.linalg.norm(np.where(counts[:, :3], distance, 0.0), axis=1)
    size = np.linalg.norm(angle, axis=1, keepdims=True)
    scale = np.where(size > 0.0, 2.0 * np.sin(0.5 * size) / np.where(size > 0.0, size, 1.0), 1.0) if chords else 1.0
    turned = np.linalg.norm(np.where(counts[:, 3:], scale * angle, 0.0), axis=1)
    turned = np.where(counts[:, 3:].all(axis=1), size[:, 0], 2.0 * np.arcsin(0.5 * turned)) if chords else turned
    return (
        np.where(counts[:, :3].any(axis=1) & (position is not None), away, np.nan),
        np.where(counts[:, 3:].any(axis=1) & (turn is not None), turned, np.nan),
    )
