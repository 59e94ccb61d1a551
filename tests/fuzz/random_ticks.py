"""Random controllers, and what must hold of every tick: limits, honest errors and statuses, a way back from faults."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ik_service import IKStatus, RobotModel
from ik_service.control import ControlLimits, ControlResult, IKController
from tests.fuzz.judge import Array, Judge, quaternion_of
from tests.fuzz.random_problems import OFF_UNIT, Problems, Task, errors_of
from tests.fuzz.verdicts import RELATIVE, ROUNDING, faults_of_couplings, size_of

BAD_NUMBERS = (np.nan, np.inf, -np.inf, 1e300)
BAD_LENGTHS = (0.0, 0.5, 5.0, 1e200)  # of quaternions
TICKS_S = (1e-6, 1e-3, 1e-3, 4e-3, 0.01, 0.5)
ROBOTS = (1, 8, 64, 100, 200)
POSITION_TOLERANCE, ORIENTATION_TOLERANCE = 1e-4, 1e-3  # [m], [rad]
MARGIN = 1e-3  # kept from position limits where there is room [m or rad]
ROOM = 0.05  # ranges that are wider have it, with those of all followers
SPEED_SLACK = 1e-9  # relative; of differences of float64 positions over a tick
POSITION_SLACK = 1e-12  # of multiplier x limit + offset, and of differences of positions up to 3 [m or rad]
CHORD_SLACK = 1e-14  # of the chord from which controllers take angles; near half a turn it says little of them
FLATTEST = 1e-8  # least slope of the chord that is told from 0
ACCELERATION_SLACK = 1e-6  # relative; differences of differences


@dataclass(frozen=True)
class Bounds:
    """What joints of one coordinate may do, a number for each; positions with margins, infinite where free."""

    names: list[str]
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    joint_step: Array


def draw_limits(rng: np.random.Generator, judge: Judge) -> tuple[ControlLimits, Bounds]:
    """Limits of a controller, and what they mean for every joint."""
    joints = judge.scalars
    spans = judge.spans()
    chosen: dict[str, float | dict[str, float]] = {}
    velocity = np.array([joint.velocity for joint in joints])
    if rng.random() < 0.5:
        chosen["velocity"] = float(rng.choice([0.2, 2.0]))
        velocity[:] = chosen["velocity"]
    acceleration = np.full(len(joints), np.inf)
    if rng.random() < 0.6:
        chosen["acceleration"] = float(rng.choice([0.5, 5.0, 50.0, 1000.0]))
        acceleration[:] = chosen["acceleration"]
    step = np.full(len(joints), np.inf)
    if rng.random() < 0.3:
        named = [k for k in range(len(joints)) if rng.random() < 0.7]
        chosen["joint_step"] = {joints[k].name: 1e-3 for k in named}
        step[named] = 1e-3
    margin = np.zeros(len(joints))
    if rng.random() < 0.3:
        roomy = [np.ptp(spans[judge.follows(joint)[0].name]) * abs(judge.follows(joint)[1]) > ROOM for joint in joints]
        margin[roomy] = MARGIN
        chosen["position_margin"] = {joint.name: MARGIN for joint, has in zip(joints, roomy, strict=True) if has}
    lower = np.array([joint.lower for joint in joints]) + margin
    upper = np.array([joint.upper for joint in joints]) - margin
    bounds = Bounds([joint.name for joint in joints], lower, upper, velocity, acceleration, step)
    return ControlLimits(**chosen), bounds


@dataclass
class Ride:
    """A controller on its way, and what it has been told.

    Targets as they are meant are `goals`, [robots, targets, 7]; of robots whose targets are `spoilt`, those that are
    still numbers, and out of reach, are `is_far`. `joint_q` and `speeds` are those of the last command.
    """

    judge: Judge
    robot: RobotModel
    tasks: list[Task]
    bounds: Bounds
    controller: IKController
    dt: float
    is_even: bool
    has_posture: bool
    problems: Problems
    goals: Array
    joint_q: Array
    speeds: Array
    was_faulty: NDArray[np.bool_]
    spoilt: NDArray[np.bool_]
    is_far: NDArray[np.bool_]
    outcomes: dict[str, int] = field(default_factory=lambda: {"converged": 0, "invalid": 0})

    @classmethod
    def draw(cls, rng: np.random.Generator, judge: Judge, robot: RobotModel) -> "Ride":
        """A controller with random limits, tasks and number of robots, somewhere inside its limits."""
        tasks = [Task.draw(rng, judge, most_patterns=1) for _ in range(int(rng.integers(1, 4)))]
        count = int(rng.choice(ROBOTS))
        data = [task.data(rng, count) for task in tasks]
        none = [None] * len(tasks)
        problems = Problems("ticks", [*none], [*none], [d[0] for d in data], [d[1] for d in data], None)
        limits, bounds = draw_limits(rng, judge)
        posture = robot.mid_joint_q if rng.random() < 0.4 else None
        controller = IKController(
            robot,
            problems.targets(tasks),
            robots=count,
            limits=limits,
            posture=posture,
            damping_weight=float(rng.choice([0.0, 1e-2])),
            scale_direction=bool(rng.random() < 0.3)
            and not any(j.kind in ("ball", "floating") for j in judge.joints.values()),
            position_tolerance=POSITION_TOLERANCE,
            orientation_tolerance=ORIENTATION_TOLERANCE,
        )
        columns = judge.draw(rng, count)
        joint_q = robot.clamp_joint_q(np.column_stack([columns[name] for name in robot.coordinate_names]))
        controller.reset(joint_q)
        even, dt = bool(rng.random() < 0.7), float(rng.choice(TICKS_S))
        speeds = np.zeros((count, len(bounds.names)))
        goals = np.zeros((count, len(tasks), 7))
        still = np.zeros(count, dtype=bool)
        fixed = judge, robot, tasks, bounds, controller, dt, even, posture is not None
        return cls(*fixed, problems, goals, joint_q, speeds, still, still, still)

    def scalars_of(self, joint_q: Array) -> Array:
        return joint_q[:, [self.robot.coordinate_names.index(name) for name in self.bounds.names]]

    def aim(self, rng: np.random.Generator, *, first: bool) -> None:
        """Sometimes gives all robots other targets: reachable, off, mirrored or by the other quaternion."""
        choice, count = rng.random(), len(self.goals)
        if first or choice < 0.08:
            columns = self.judge.draw(rng, count)
            for k, task in enumerate(self.tasks):
                position, turn = task.poses(self.judge, columns, self.problems.offsets[k])
                self.goals[:, k] = np.hstack([position, quaternion_of(turn)])
            if rng.random() < 0.3:
                self.goals[..., :3] += rng.normal(size=(count, len(self.tasks), 3)) * rng.choice([0.05, 1.0, 1e5])
        elif choice < 0.12:
            self.goals[..., :3] *= -1.0
        elif choice < 0.2:
            self.goals[..., 3:] *= -rng.uniform(1 - OFF_UNIT, 1 + OFF_UNIT)
            self.goals[..., 3:] /= np.linalg.norm(self.goals[..., 3:], axis=-1, keepdims=True)
        self.problems.positions = [self.goals[:, k, :3] for k in range(len(self.tasks))]
        self.problems.orientations_xyzw = [self.goals[:, k, 3:] for k in range(len(self.tasks))]

    def spoil(self, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
        """Targets to send, sometimes with what is no target for some robots, and which robots must say so."""
        sent, count = self.goals.copy(), len(self.goals)
        self.spoilt, self.is_far = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        if rng.random() > 0.06:
            return sent, self.spoilt
        self.spoilt, k, column = rng.random(count) < 0.3, int(rng.integers(len(self.tasks))), int(rng.integers(7))
        number = float(rng.choice(BAD_NUMBERS))
        if rng.random() < 0.5:
            sent[self.spoilt, k, column] = number
        else:
            sent[self.spoilt, k, 3:] *= float(rng.choice(BAD_LENGTHS))
            column, number = 3, np.nan
        weights = self.problems.weights[k]
        counts = np.broadcast_to(True if weights is None else weights > 0.0, (count, 6))
        counts = counts[:, [column] if column < 3 else [3, 4, 5]].any(axis=1)
        if column < 3 and np.isfinite(number):  # a place, if one that nothing reaches
            self.is_far = counts
            return sent, np.zeros(count, dtype=bool)
        return sent, self.spoilt & counts

    def tick(self, rng: np.random.Generator, number: int) -> list[str]:
        self.aim(rng, first=number == 0)
        sent, bad = self.spoil(rng)
        dt = self.dt if self.is_even else self.dt * float(rng.uniform(0.5, 2.0))
        result = self.controller.step(sent, dt=dt)
        joint_q = result.joint_q.copy()
        moves = self.scalars_of(joint_q) - self.scalars_of(self.joint_q)
        faults = self.faults_of_command(result, joint_q, moves, dt) + self.faults_of_answer(result, joint_q, bad)
        self.joint_q, self.speeds, self.was_faulty = joint_q, moves / dt, self.spoilt
        self.outcomes["converged"] += int(result.success.sum())
        self.outcomes["invalid"] += int((result.status == IKStatus.INVALID).sum())
        return faults

    def faults_of_command(self, result: ControlResult, joint_q: Array, moves: Array, dt: float) -> list[str]:
        """Limits that a command breaks, couplings that it does not keep, speeds that do not lead there."""
        bounds, q = self.bounds, self.scalars_of(joint_q)
        if not (np.isfinite(joint_q).all() and np.isfinite(result.joint_qd).all()):
            return ["a command is not finite"]
        was = self.scalars_of(self.joint_q)  # the first may keep less than the margin
        low, high = np.minimum(bounds.lower, was), np.maximum(bounds.upper, was)
        checks = {
            "position": (q < low - POSITION_SLACK) | (q > high + POSITION_SLACK),
            "speed": np.abs(moves) > bounds.velocity * dt * (1 + SPEED_SLACK) + POSITION_SLACK * 1e-3,
            "joint step": np.abs(moves) > bounds.joint_step * (1 + SPEED_SLACK) + POSITION_SLACK * 1e-3,
        }
        if self.is_even:
            change = np.abs(moves - self.speeds * dt)
            most = bounds.acceleration * dt * dt
            checks["acceleration"] = change > most * (1 + ACCELERATION_SLACK) + POSITION_SLACK * 1e-3
        found = []
        for name, broken in checks.items():
            for robot, joint in np.argwhere(broken)[:1]:
                place = f"robot {robot}, joint {bounds.names[joint]}"
                found.append(f"{name} limit: {place} moves {moves[robot, joint]!r} to {q[robot, joint]!r} in {dt!r} s")
        dofs = [self.robot.dof_names.index(name) for name in bounds.names]
        if (np.abs(result.joint_qd[:, dofs] * dt - moves) > POSITION_SLACK).any():
            found.append("speeds do not lead where positions do")
        columns = dict(zip(self.robot.coordinate_names, joint_q.T, strict=True))
        return found + faults_of_couplings(self.judge, columns, lambda _: ROUNDING, ROUNDING)

    def faults_of_answer(self, result: ControlResult, joint_q: Array, bad: NDArray[np.bool_]) -> list[str]:
        """Errors and statuses that are not what the configuration says, faulty robots that are not told."""
        found = []
        status = result.status
        missed = bad & (status != IKStatus.INVALID)
        found += [f"robot {i} is not told to be invalid" for i in np.flatnonzero(missed)[:1]]
        reached = self.spoilt & self.is_far & (status == IKStatus.CONVERGED)
        found += [f"robot {i} has reached what is out of all reach" for i in np.flatnonzero(reached)[:1]]
        good = ~self.spoilt
        if (status[good] == IKStatus.INVALID).any():
            after = "after a fault" if (self.was_faulty & good & (status == IKStatus.INVALID)).any() else "from nothing"
            found.append(f"a robot with sound numbers is invalid {after}")
        columns = dict(zip(self.robot.coordinate_names, joint_q.T, strict=True))
        met, sure = np.ones(len(status), dtype=bool), good & (status != IKStatus.INVALID)
        for k, task in enumerate(self.tasks):
            slack = ROUNDING + RELATIVE * size_of(columns, self.problems.positions[k])
            errors = errors_of(self.judge, task, columns, self.problems, k, chords=True)
            told = result.position_error[:, k], result.orientation_error[:, k]
            for name, error, said, tolerance in zip(
                ("position", "orientation"), errors, told, (POSITION_TOLERANCE, ORIENTATION_TOLERANCE), strict=True
            ):
                room = slack
                if name == "orientation":
                    room = slack + CHORD_SLACK / np.maximum(np.abs(np.cos(0.5 * np.nan_to_num(error))), FLATTEST)
                wrong = sure & ((np.abs(error - said) > room) | (np.isnan(error) != np.isnan(said)))
                for i in np.flatnonzero(wrong)[:1]:
                    found.append(f"{name} error of target {k}: {said[i]!r} is told, {error[i]!r} is found")
                met &= ~(error > tolerance)
                sure &= ~(np.abs(error - tolerance) <= slack)
        converged = status == IKStatus.CONVERGED
        missing = ~converged & met & (not self.has_posture)  # whose own islands may still be on their way
        for word, wrong in (("false success", converged & ~met), ("false failure", missing)):
            found += [f"{word} of robot {i}, {IKStatus(int(status[i])).name}" for i in np.flatnonzero(wrong & sure)[:1]]
        return found
