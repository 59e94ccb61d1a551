"""Digests of answers, to show that a change of the code changes no answer, or which ones it changes.

python benchmarks/answer_digests.py --write before.json [--scale 1.0]     # on the code of before
python benchmarks/answer_digests.py --compare before.json [--scale 1.0]   # on the code of after

A digest is the SHA-256 of all result columns of one set-up: robot, engine and options. The targets depend on nothing
but a random seed and the robot's own kinematics, rounded. Answers depend on the CPU's level, so both runs belong on one
machine. The exit code is 1 where a digest differs or is missing.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.problems.compared_robots import ALLEGRO_TIPS, ComparedRobot
from ik_service.control import ControlLimits, IKController
from objectives import IKObjectivePosition, IKObjectivePosture

COLUMNS = (
    "joint_q",
    "success",
    "status",
    "position_error",
    "orientation_error",
    "cost",
    "iterations",
    "seed_index",
    "active_limits",
    "solutions",
    "solution_count",
)
ISLAND_COLUMNS = ("success", "status", "seed_index", "iterations", "cost")
TICK_COLUMNS = ("joint_q", "joint_qd", "success", "status", "position_error", "orientation_error", "active_limits")
HANDS = ("left_grasp", "right_grasp", "left_sole", "right_sole", "head")
TALOS = ("gripper_left_base_link", "gripper_right_base_link", "left_sole_link", "right_sole_link")
ROBOTS = (
    ComparedRobot("panda", "panda", ("panda_hand",)),
    ComparedRobot("ur5e", "ur5e", ("tool0",)),
    ComparedRobot("iiwa14", "iiwa14", ("iiwa_link_ee",)),
    ComparedRobot("dual_panda", "dual_panda", ("left_panda_hand", "right_panda_hand")),
    ComparedRobot("panda_gripper", "panda_gripper", ("panda_leftfinger",)),
    ComparedRobot("allegro", "allegro", ALLEGRO_TIPS),
    ComparedRobot("humanoid", "humanoid", HANDS),
    ComparedRobot("Kinova", "kinova_description/robots/kinova.urdf", ("j2s6s200_end_effector",)),
    ComparedRobot("xArm7", "xarm_description/urdf/xarm7.urdf", ("link_eef",)),
    ComparedRobot("UR5", "ur_description/urdf/ur5_robot.urdf", ("tool0",)),
    ComparedRobot("Baxter", "baxter_description/urdf/baxter.urdf", ("left_gripper", "right_gripper")),
    ComparedRobot("Allegro left", "allegro_hand_description/urdf/allegro_left_hand.urdf", ALLEGRO_TIPS),
    ComparedRobot("Talos", "talos_data/robots/talos_full_v2.urdf", TALOS),
    ComparedRobot("TIAGo", "tiago_description/robots/tiago_dual.urdf", ("hand_left_palm_link", "hand_right_palm_link")),
    ComparedRobot("Romeo", "romeo_description/urdf/romeo.urdf", ("l_gripper", "r_gripper")),
)
PROBLEMS = 400  # of one set-up; the plain one has four times as many
STAGED_PROBLEMS = 40
SOFT_WEIGHT = 0.03  # of a posture beside targets
OUT_OF_REACH = 8  # every so manieth target is moved away by up to a metre
SETUPS: dict[str, dict[str, Any]] = {
    "best_of cost": {"best_of": "cost", "seeds": 16},
    "best_of nearest": {"best_of": "nearest", "seeds": 16},
    "solutions": {"solutions": 4, "seeds": 16},
    "float64": {"precision": "float64"},
}
TICKED = ("panda", "ur5e", "dual_panda", "humanoid")
TICKS = 1250  # of each of these, with and without a limit of acceleration
DT_S = 1e-3
ACCELERATION = 10.0  # [rad/s^2]
PATH_STEP = 2e-3  # [rad] between the configurations that a path of ticks goes through
DECIMALS = 9  # what of the targets does not depend on how kinematics are computed


def main() -> int:
    """Make the digests; write them, or compare them with those of before."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", type=Path, help="file to write the digests to")
    mode.add_argument("--compare", type=Path, help="file with the digests of before")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many problems and ticks")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_ERROR
    found = {}
    for name, count, digest in digests(arguments.scale):
        found[name] = digest
        print(f"{name:<40} {count:6d} {digest[:16]}", flush=True)
    if arguments.write:
        arguments.write.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known = json.loads(arguments.compare.read_text())
    changed = sorted(name for name in known.keys() | found.keys() if known.get(name) != found.get(name))
    print(f"{len(found)} digests, {len(changed)} differ" + "".join(f"\n  {name}" for name in changed))
    return int(bool(changed))


def digests(scale: float) -> Iterator[tuple[str, int, str]]:
    """Yield the name of every set-up, its number of problems or ticks, and its digest."""
    for case in ROBOTS:
        yield from _digests_of_solves(case, scale)
    for case in ROBOTS:
        if case.name in TICKED:
            for acceleration in (None, ACCELERATION):
                count = max(1, round(scale * TICKS))
                yield f"{case.name}, ticks, acceleration {acceleration}", count, _ticks(case, acceleration, count)


def _digests_of_solves(case: ComparedRobot, scale: float) -> Iterator[tuple[str, int, str]]:
    links = list(case.links)
    many, few = max(1, round(scale * PROBLEMS)), max(1, round(scale * STAGED_PROBLEMS))
    positions, orientations, starts = _targets(case, 4 * many)
    solver = ik_service.IKSolver(case.robot, links, device="cpu")
    threads = ik_service.IKSolver(case.robot, links, device="cpu", threads=2)
    staged = ik_service.IKSolver(case.robot, links, device="cpu", engine="staged")
    yield f"{case.name}, plain", 4 * many, _digest(solver.solve(positions, orientations))
    yield f"{case.name}, two threads", 4 * many, _digest(threads.solve(positions, orientations))
    first = slice(None, many)
    yield (
        f"{case.name}, start",
        many,
        _digest(solver.solve(positions[first], orientations[first], initial_joint_q=starts[first])),
    )
    yield f"{case.name}, positions", many, _digest(solver.solve(positions[first]))
    if solver.engine == "compiled":
        for name, options in SETUPS.items():
            answer = solver.solve(positions[first], orientations[first], initial_joint_q=starts[first], options=options)
            yield f"{case.name}, {name}", many, _digest(answer)
    first = slice(None, few)
    answer = staged.solve(positions[first], orientations[first], options={"seeds": 4})
    yield f"{case.name}, staged", few, _digest(answer)
    for engine in sorted({solver.engine, "staged"}):
        posture = IKObjectivePosture(case.robot.mid_joint_q, weight=SOFT_WEIGHT)
        soft = ik_service.IKSolver(case.robot, links, objectives=[posture], device="cpu", engine=engine)
        answer = soft.solve(positions[first], orientations[first], options={"seeds": 2})
        yield f"{case.name}, {engine}, targets and a posture", few, _digest(answer)
        alone = [IKObjectivePosture(case.robot.mid_joint_q), IKObjectivePosition(links[0], positions[first, 0])]
        goals = ik_service.IKSolver(case.robot, objectives=alone, device="cpu", engine=engine)
        answer = goals.solve(problem_count=few, initial_joint_q=starts[first], options={"seeds": 2})
        yield f"{case.name}, {engine}, objectives alone", few, _digest(answer)


def _targets(case: ComparedRobot, count: int) -> tuple[Any, Any, Any]:
    """Poses of random configurations, some of them moved out of reach, and other configurations as starts."""
    rng = np.random.default_rng(7)
    poses = case.robot.forward_kinematics(case.robot.random_joint_q(rng, count), list(case.links))
    positions, orientations = np.round(poses.positions, DECIMALS), np.round(poses.orientations_xyzw, DECIMALS)
    positions[::OUT_OF_REACH] += rng.uniform(-1.0, 1.0, positions[::OUT_OF_REACH].shape)
    return positions, orientations, np.round(case.robot.random_joint_q(rng, count), DECIMALS)


def _digest(result: Any, columns: tuple[str, ...] = COLUMNS) -> str:
    """The digest of all columns that a result has."""
    found = hashlib.sha256()
    for name in columns:
        value = getattr(result, name)
        found.update(name.encode() + (b"-" if value is None else np.ascontiguousarray(value).tobytes()))
    if columns is COLUMNS:
        islands = result.islands
        found.update(islands.nisland.tobytes() + islands.tree_island.tobytes() + islands.row_island.tobytes())
        there = np.arange(islands.cost.shape[1]) < islands.nisland[:, None]
        for name in ISLAND_COLUMNS:
            found.update(name.encode() + np.where(there, getattr(islands, name), 0).tobytes())
    return found.hexdigest()


def _ticks(case: ComparedRobot, acceleration: float | None, count: int) -> str:
    """The digest of the ticks along a straight line between two configurations."""
    robot, links, rng = case.robot, list(case.links), np.random.default_rng(11)
    ends = np.round(robot.random_joint_q(rng, 2), DECIMALS)
    controller = IKController(robot, links, limits=ControlLimits(acceleration=acceleration))
    controller.reset(ends[0])
    steps = np.minimum(PATH_STEP * np.arange(count), 1.0)[:, None]
    joint_q = robot.clamp_joint_q((1.0 - steps) * ends[0] + steps * ends[1])
    poses = robot.forward_kinematics(joint_q, links)
    targets = np.round(np.concatenate([poses.positions, poses.orientations_xyzw], axis=2), DECIMALS)
    found = hashlib.sha256()
    for target in targets:
        found.update(_digest(controller.step(target, dt=DT_S), TICK_COLUMNS).encode())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
