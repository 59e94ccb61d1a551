"""A robot, its targets and its configuration: the state of a visitor without graphics.

Dragging keeps the branch: a solve starts from the last configuration, without other seeds.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.client import SolveTarget
from ik_service.mechanism.names import leaf_links
from ik_service.mechanism.transforms import Float64Array, quaternion_exp, quaternion_multiply, rotation_between
from ik_service.mechanism.trees import joints_to
from ik_service.page.geometry import robot_size
from ik_service.page.questions import ROTATIONS, Answer, PageError, Question
from ik_service.robots import JointType, RobotModel
from ik_service.robots.readers.fitted_spheres import named_configurations
from ik_service.robots.readers.world_file import read_world
from ik_service.solver.given.options import SolverOptions
from objectives.errors import InputError

KEEP_BRANCH: Mapping[str, Any] = {"seeds": 1, "approximate": "nearest"}
DRAWN_AT_LIMIT = 1e-4  # distance from a limit at which a joint that was posed by hand is at it [rad or m]
SOLUTIONS = 8  # solutions that are looked for where their number has no bound
ARM_JOINTS = 6  # joints with which an arm reaches a whole pose in at most 16 ways, singular ones aside
RANDOM_TARGETS = 1000
TOLERANCES = SolverOptions().position_tolerance, SolverOptions().orientation_tolerance  # [m, rad]
FIRST: Mapping[str, Any] = json.loads((files("ik_service.page") / "first_poses.json").read_text())
"""Of built-in robots: links that have targets at first, and joints, from zero on [rad or m], if not at mid-range."""
PLANES: Mapping[str, tuple[int, int]] = {"level": (0, 1), "upright, along x": (0, 2), "upright, along y": (1, 2)}
"""Axes of the world spanning each plane of a slice, about the robot's base, through the first active target."""
SLICE_PLACES, SLICE_WIDTH = 41, 2.2  # places along each side of a slice, and its width over the size of the robot
DIRECTIONS, TILT_MOST = 60, 1.4  # tried directions of a tool, and their largest tilt [rad]
GOLDEN = np.pi * (3.0 - 5.0**0.5)  # angle about the present direction from one to the next [rad]: spreads evenly
LIMB_DOFS, FINGER_DOFS = 3, 4  # least DOFs that carry a hand, most DOFs of its finger


@dataclass(frozen=True, eq=False)
class TargetState:
    """A target of a visitor."""

    link: str
    pose: Float64Array  # in the world frame [m, xyzw], shape [7]
    free: tuple[str, ...] = ()  # free axes, of `ROTATIONS`
    is_on: bool = True  # whether the target is active

    @property
    def is_point(self) -> bool:
        """True where the orientation does not count."""
        return len(self.free) == len(ROTATIONS)


class PosedRobot:
    """A robot, under its name in questions, its configuration and its targets."""

    waypoint_met: bool | None = None  # whether the waypoint is met where the robot stands; None beside a path

    def __init__(self, name: str, robot: RobotModel) -> None:
        self.name, self.robot = name, robot
        self.joint_q: NDArray[Any] = _start(name, robot)  # present configuration, shape [joint_coord_count]
        self.targets: dict[str, TargetState] = {}  # by link
        for link in FIRST.get(name, {}).get("targets") or tool_links(robot):
            free = ROTATIONS if len(_ways(robot, self.joint_q, link)) < 6 else ()
            self.targets[link] = TargetState(link, np.zeros(7), free)
        self.answer: Answer | None = None  # the last answer; None after joints have been moved by hand
        # distance and angle of every active target, by link [m, rad]; NaN for free positions or orientations
        self.error: dict[str, tuple[float, float]] = {}
        self._put(list(self.targets), {})

    @property
    def asked(self) -> tuple[TargetState, ...]:
        """The active targets."""
        return tuple(target for target in self.targets.values() if target.is_on)

    def change(self, link: str, **values: Any) -> None:
        """Change a target: its `pose`, `free` or `is_on`."""
        self.targets[link] = replace(self.targets[link], **values)

    def pick(self, link: str) -> TargetState:
        """Toggle the target of a link, new ones at the present pose; PageError where no joint moves the link."""
        old = self.targets.get(link)
        if old is not None and old.is_on:
            self.change(link, is_on=False)
            return self.targets[link]
        ways = len(_ways(self.robot, self.joint_q, link))
        if not ways:
            raise PageError(f"No joint moves '{link}', so it cannot be dragged. Pick a link that moves.")
        free = old.free if old is not None else ROTATIONS if ways < 6 else ()
        self.targets[link] = TargetState(link, np.zeros(7), free)
        self._put([link], {})
        return self.targets[link]

    def move(self, link: str, pose: Float64Array, *, share: float = 1.0) -> None:
        """Move a target a share of the way to a pose [m, xyzw], shape [7]."""
        start = self.targets[link].pose
        if share == 1.0 or np.array_equal(start, pose):
            self.change(link, pose=pose)
            return
        end = pose * np.where(np.arange(7) < 3, 1.0, np.sign(start[3:] @ pose[3:]) or 1.0)  # turns the short way
        middle = start + share * (end - start)
        middle[3:] /= np.linalg.norm(middle[3:])
        self.change(link, pose=middle)

    def idle_dofs(self) -> set[int]:
        """Return the active DOFs that move no target, such as those of a gripper; none with loops."""
        if self.robot.loops:
            return set()
        moved = {dof for link in self.targets for dof in _ways(self.robot, self.joint_q, link).tolist()}
        return set(np.flatnonzero(self.robot.dof_active >= 0).tolist()) - moved

    def stand(self, joint_q: NDArray[Any], poses: Mapping[str, Float64Array] | None = None) -> None:
        """Move to a configuration, [joint_coord_count], with loops closed, and set the targets.

        The target poses are given by link, as along a path; None puts targets at their links, after a pose by hand.
        """
        robot = self.robot
        self.joint_q = robot.clamp_joint_q(joint_q)[0]
        if robot.loops:
            self.joint_q = robot.constraints.close(self.joint_q).joint_q[0]
        self.answer = self.waypoint_met = None
        self._put(list(self.targets), poses or {})

    def _put(self, links: list[str], poses: Mapping[str, Float64Array]) -> None:
        """Move targets to given poses, or else to their links."""
        for link, reached in zip(links, self._poses(links), strict=True):
            pose = poses.get(link, reached)
            self.change(link, pose=pose)
            turn = np.nan if self.targets[link].is_point else np.linalg.norm(rotation_between(reached[3:], pose[3:]))
            self.error[link] = (float(np.linalg.norm(reached[:3] - pose[:3])), float(turn))

    def _poses(self, links: list[str]) -> Float64Array:
        """Return `T_world_link` of links [m, xyzw], shape [links, 7]."""
        poses = self.robot.forward_kinematics(np.asarray(self.joint_q, np.float64), links)
        return np.concatenate([poses.positions[0], poses.orientations_xyzw[0]], axis=1)

    def closest(self, objects: Mapping[str, Any]) -> tuple[tuple[str, str] | None, float]:
        """Return the closest pair of links or objects in the present configuration, and their distance [m]."""
        if self.robot.collision_model is None:
            return None, np.inf
        world = read_world({"objects": dict(objects)}) if objects else None
        found = self.robot.collision(self.joint_q, world)
        return found.closest_pairs[0], float(found.clearance[0])

    def question(self, *, any_branch: bool, options: Mapping[str, Any], objects: Mapping[str, Any]) -> Question:
        """Return the question of a solve from the present configuration; PageError without an active target."""
        if not self.asked:
            raise PageError("No target counts, so there is nothing to solve for. Tick 'Target' of a link.")
        poses, branch = [one.pose for one in self.asked], {} if any_branch else KEEP_BRANCH
        return self.question_at(self.asked, np.array([poses]), options={**branch, **options}, objects=objects)

    def question_at(
        self, targets: Sequence[TargetState], poses: Float64Array, *, is_started: bool = True, **given: Any
    ) -> Question:
        """Return problems of targets at poses [m, xyzw], shape [n, targets, 7], with options and objects.

        All start from the present configuration, or, without `is_started`, from starts of the solver's own.
        """
        asked = list[SolveTarget]()
        for k, one in enumerate(targets):
            turn: dict[str, Any] = {} if one.is_point else {"orientations_xyzw": poses[:, k, 3:], "free": one.free}
            asked.append(SolveTarget(link=one.link, positions=poses[:, k, :3], **turn))
        start = np.tile(self.joint_q, (len(poses), 1)) if is_started else None
        return Question(robot=self.name, targets=tuple(asked), initial_joint_q=start, **given)

    def wanted_solutions(self) -> int | str:
        """Return the option `solutions` of a search for others: all where one whole pose leaves a finite number."""
        asked = self.asked
        if len(asked) != 1 or asked[0].free:
            return SOLUTIONS
        return "all" if len(_ways(self.robot, self.joint_q, asked[0].link)) == ARM_JOINTS else SOLUTIONS

    def met_dofs(self) -> NDArray[np.bool_]:
        """Return the DOFs in whose island every target is met, shape [joint_dof_count]."""
        missed = [one.link for one in self.asked if (np.array(self.error[one.link]) > TOLERANCES).any()]
        bodies, trees = [self.robot.link_frame(link)[0] for link in missed], self.robot.trees
        still = {int(trees.body_treeid[body]) for body in bodies if body >= 0}  # trees with a missed target
        return np.array(
            [not missed if self.robot.loops else tree not in still for tree in trees.dof_treeid], dtype=bool
        )

    def held_dofs(self) -> NDArray[np.bool_]:
        """Return the DOFs at a limit, shape [joint_dof_count]."""
        robot, coordinate = self.robot, self.robot.dof_coordinate
        place = np.where(coordinate >= 0, np.asarray(self.joint_q, np.float64)[np.maximum(coordinate, 0)], np.nan)
        ends = np.stack([place - robot.joint_limit_lower, robot.joint_limit_upper - place])
        return np.asarray((ends <= DRAWN_AT_LIMIT).any(axis=0) & (robot.dof_active >= 0))

    def take(self, answer: Answer) -> None:
        """Stand where an answer says."""
        self.joint_q, self.answer, self.waypoint_met = answer.joint_q[0].copy(), answer, None
        errors = np.stack([answer.position_error[0], answer.orientation_error[0]], axis=1)
        self.error = {target.link: tuple(errors[k].tolist()) for k, target in enumerate(self.asked)}

    def random_question(self, seed: int, **given: Any) -> Question:
        """Return `RANDOM_TARGETS` problems of reachable targets, to be solved from starts of the solver's own."""
        robot, rng = self.robot, np.random.default_rng(seed)
        if robot.loops:
            closure = robot.constraints.close(robot.random_joint_q(rng, RANDOM_TARGETS // 10))
            joint_q = np.resize(closure.joint_q[closure.closed], (RANDOM_TARGETS, robot.joint_coord_count))
        else:
            joint_q = robot.random_free_joint_q(rng, RANDOM_TARGETS)
        found = robot.forward_kinematics(joint_q, [target.link for target in self.asked])
        poses = np.concatenate([found.positions, found.orientations_xyzw], axis=2)
        return self.question_at(self.asked, poses, is_started=False, **given)

    def slice_question(self, plane: str, **given: Any) -> tuple[Question, float]:
        """Return problems with the first target on a grid in a plane of `PLANES`, and the spacing of the grid [m].

        The target keeps its orientation; other targets are inactive, and joints that serve only other targets stay.
        """
        target, width = self.asked[0], SLICE_WIDTH * robot_size(self.robot)
        steps = np.linspace(-0.5 * width, 0.5 * width, SLICE_PLACES)
        poses, base = np.tile(target.pose, (SLICE_PLACES**2, 1)), self._poses([self.robot.link_names[0]])[0]
        for axis, along in zip(PLANES[plane], np.meshgrid(steps, steps, indexing="ij"), strict=True):
            poses[:, axis] = base[axis] + along.ravel()
        return self.question_at([target], poses[:, None], **given), float(steps[1] - steps[0])

    def direction_question(self, **given: Any) -> Question:
        """Return problems with the first target turned about its place, other targets as they are.

        The axis z of the tool has directions on a cap about the present one, the first problem; PageError for a target
        with a free orientation.
        """
        poses, k = np.tile([one.pose for one in self.asked], (DIRECTIONS, 1, 1)), np.arange(DIRECTIONS)[:, None]
        if not self.asked or self.asked[0].is_point:
            raise PageError("The first target leaves all rotations free, so there are no directions to try.")
        tilt, about = np.arccos(1.0 - (1.0 - np.cos(TILT_MOST)) * k / DIRECTIONS), GOLDEN * k
        tilts = quaternion_exp(tilt * np.concatenate([np.cos(about), np.sin(about), 0.0 * k], axis=1))
        turns = quaternion_multiply(tilts, quaternion_exp(np.sqrt(2.0) * about * [0.0, 0.0, 1.0]))
        poses[:, 0, 3:] = quaternion_multiply(poses[:, 0, 3:], turns)
        return self.question_at(self.asked, poses, **given)


def _start(name: str, robot: RobotModel) -> Float64Array:
    """Return a configuration free of contact with closed loops, or the nearest to this found."""
    joint_q, first = np.array(robot.mid_joint_q, np.float64), FIRST.get(name, {}).get("joints", {})
    if first and first.keys() <= set(robot.joint_names):
        joint_q = named_configurations(robot)["zero"]
        joint_q[[robot.joint_q_start[robot.joint_index(joint)] for joint in first]] = list(first.values())
        joint_q = robot.clamp_joint_q(joint_q)[0]
    if robot.loops:
        return np.asarray(robot.constraints.close(joint_q).joint_q[0])
    if robot.collision_model is not None and not robot.collision(joint_q).is_free[0]:
        with suppress(InputError):  # next to nothing is free
            drawn = robot.random_free_joint_q(np.random.default_rng(0), 64)
            return np.asarray(drawn[np.argmin(np.abs(drawn - joint_q).max(axis=1))])
    return joint_q


def _ways(robot: RobotModel, joint_q: NDArray[Any], link: str) -> NDArray[np.intp]:
    """Return the active DOFs that move a link."""
    return np.flatnonzero((np.abs(robot.jacobian(joint_q, [link])[0, 0]) > 0.0).any(axis=0) & (robot.dof_active >= 0))


def tool_links(robot: RobotModel) -> list[str]:
    """Return the ends of chains, and one link in place of the fingers of a hand."""
    chains, leaves = {link: _chain(robot, link) for link in robot.link_names}, leaf_links(robot)
    ends = [leaf for leaf in leaves if chains[leaf] and not any(chains[leaf] < chains[other] for other in leaves)]
    hands = list[list[str]]()
    for leaf in ends or [robot.link_names[-1]]:
        hand = next((hand for hand in hands if _is_one_hand(chains[hand[0]], chains[leaf])), [])
        if not hand:
            hands.append(hand)
        hand.append(leaf)
    found = []
    for hand in hands:
        shared = frozenset.intersection(*(chains[leaf] for leaf in hand))
        found.append([link for link in (*robot.link_names, *leaves, *hand) if chains[link] == shared][-1])
    return found


def _chain(robot: RobotModel, link: str) -> frozenset[int]:
    """Return the DOFs from the world to a link, without those of a floating base."""
    joints = [k for k in joints_to(robot, robot.link_frame(link)[0]) if robot.joint_type[k] != JointType.FLOATING]
    return frozenset(dof for k in joints for dof in range(*robot.joint_qd_start[k : k + 2].tolist()))


def _is_one_hand(one: frozenset[int], other: frozenset[int]) -> bool:
    return len(one & other) >= LIMB_DOFS and max(len(one - other), len(other - one)) <= FINGER_DOFS
