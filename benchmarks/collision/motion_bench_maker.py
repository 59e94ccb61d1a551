"""Goals of MotionBenchMaker, with `python -m benchmarks.collision.motion_bench_maker FOLDER [--write FILE]`.

FOLDER is `resources` of the VAMP repository (github.com/KavrakiLab/vamp), of which nothing is kept here: URDFs whose
collision shapes are spheres, SRDFs, and an archive of scenes and requests for each robot. The pose of a goal's hand is
the target, in the goal's scene; a goal counts as free where the spheres of its own configuration touch nothing.

C. Chamzas et al., "MotionBenchMaker: A Tool to Generate and Benchmark Motion Planning Datasets", IEEE RA-L 7(2), 2022.
"""

import re
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

import ik_service
from benchmarks.report import Report, machine, measured
from ik_service.robots import Box, Cylinder, RobotModel, Sphere, World
from ik_service.robots.transforms import quaternion_multiply, quaternion_rotate

ROBOTS = ("panda", "ur5", "fetch", "baxter")
REPEATS = 5
PANDA_LEAST, PANDA_US, SHARE_LEAST = 697, 6.0, 0.99
Pose = tuple[NDArray[np.float64], NDArray[np.float64]]
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Goal(NamedTuple):
    """A goal of the data set.

    Attributes:
        scene: Name of its set of scenes.
        world: The scene.
        joints: Values of the joints of the group at the goal [rad or m], by name.
        others: Values of all joints at the start.
    """

    scene: str
    world: World
    joints: Mapping[str, float]
    others: Mapping[str, float]


def goals_of(archive: Path) -> list[Goal]:
    """Read all goals of a robot, in the order of their names."""
    texts: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                _, folder, name = member.name.split("/")
                kind, number = re.fullmatch(r"(scene|request)(\d+)\.yaml", name).groups()
                texts[folder, int(number)][kind] = yaml.load(file.read(), Loader=Loader)  # a safe loader
    return [_goal(folder, found) for (folder, _), found in sorted(texts.items(), key=lambda item: item[0])]


def _goal(folder: str, found: Mapping[str, Any]) -> Goal:
    constraints = found["request"]["goal_constraints"][0]["joint_constraints"]
    start = found["request"]["start_state"]["joint_state"]
    objects = dict(_objects(found["scene"]["world"]["collision_objects"]))
    joints = {one["joint_name"]: float(one["position"]) for one in constraints}
    return Goal(folder, World(objects), joints, dict(zip(start["name"], map(float, start["position"]), strict=True)))


def _objects(entries: Any) -> Iterator[tuple[str, Any]]:
    """Give the shapes of a scene with their names."""
    for number, entry in enumerate(entries or ()):
        base = _pose(entry["pose"]) if "pose" in entry else (np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))
        for part, (primitive, place) in enumerate(zip(entry["primitives"], entry["primitive_poses"], strict=True)):
            own = _pose(place)
            position = base[0] + quaternion_rotate(base[1], own[0])
            pose = (*position, *quaternion_multiply(base[1], own[1]))
            size = primitive["dimensions"]
            name = f"{number} {entry['id']} {part}"
            if primitive["type"] == "box":
                yield name, Box(tuple(size), pose)
            elif primitive["type"] == "cylinder":
                yield name, Cylinder(size[1], size[0], pose)
            else:
                yield name, Sphere(size[0], tuple(position))


def _pose(place: Any) -> Pose:
    turn = np.array(place["orientation"], dtype=float)
    return np.array(place["position"], dtype=float), turn / np.linalg.norm(turn)


def loaded(folder: Path, name: str, goal: Goal) -> RobotModel:
    """Load a robot with its spheres; joints that are not of the group are locked where they start."""
    with tempfile.TemporaryDirectory() as kept:
        for suffix, file in ((".urdf", f"{name}_spherized.urdf"), (".srdf", f"{name}.srdf")):
            Path(kept, f"{name}{suffix}").write_bytes((folder / name / file).read_bytes())
        robot = ik_service.load_robot(Path(kept, f"{name}.urdf"), collision="shapes")
    free = [joint for joint in robot.joint_names if joint not in goal.joints]
    limits = dict(zip(robot.dof_names, zip(robot.joint_limit_lower, robot.joint_limit_upper, strict=True), strict=True))
    values = {joint: float(np.clip(goal.others.get(joint, 0.0), *limits[joint])) for joint in free}
    return robot.lock(values)


def tips_of(robot: RobotModel, goal: Goal) -> list[str]:
    """The links that the last joints of the group's chains move."""
    moved = [robot.joint_names.index(joint) for joint in goal.joints]
    parents = {int(robot.joint_parent[joint]) for joint in moved}
    ends = [joint for joint in moved if joint not in parents]
    return [next(link for link in robot.link_names if robot.link_frame(link)[0] == joint) for joint in ends]


def show(report: Report, folder: Path) -> None:
    """Measure all robots."""
    report.section(
        "Goals in their scenes, one core",
        f"CPU time per goal of the public call, each goal in a world of its own, {machine()}; least of {REPEATS}. "
        "Solved are answers that are met and free, of all goals; free are the goals whose own configuration is.",
    )
    report.table("robot and scenes", "goals", "goals that are free", "solved", "us per goal", "successes in contact")
    for name in ROBOTS:
        goals = goals_of(folder / name / "problems.tar.bz2")
        robot = loaded(folder, name, goals[0])
        links = tips_of(robot, goals[0])
        joint_q = np.tile(robot.mid_joint_q, (len(goals), 1))
        for row, goal in zip(joint_q, goals, strict=True):
            for joint, value in goal.joints.items():
                row[robot.coordinate_names.index(joint)] = value
        solver = ik_service.IKSolver(robot, links, device="cpu")
        scenes = np.array([goal.scene for goal in goals])
        for scene in (*dict.fromkeys(scenes.tolist()), ""):
            own = np.flatnonzero(scenes == scene) if scene else np.arange(len(goals))
            worlds = [goals[k].world for k in own]
            free, solved, wrong, seconds = solved_in(solver, robot, links, joint_q[own], worlds)
            counts, mean = (len(own), free, solved, wrong), 1e6 * seconds / len(own)
            report.row(scene or f"**{name}**, in one call", *counts[:3], f"{mean:.1f}", wrong)
        figure = f"{counts[2]} of {counts[0]} ({counts[1]} goals are free), {mean:.1f} us, {counts[3]} in contact"
        if name == "panda":
            passed = counts[2] >= PANDA_LEAST and mean <= PANDA_US and not counts[3]
            report.claim(name, figure, f"{PANDA_LEAST}, {PANDA_US:g} us, 0", passed)
        else:
            passed = counts[2] >= counts[1] - (1.0 - SHARE_LEAST) * counts[0] and not counts[3]
            report.claim(name, figure, "a hundredth of the goals fewer than are free, 0", passed)


def solved_in(
    solver: ik_service.IKSolver,
    robot: RobotModel,
    links: list[str],
    joint_q: NDArray[np.float64],
    worlds: list[World],
) -> tuple[int, int, int, float]:
    """Return how many goals are free, how many are solved, how many successes touch something, and CPU time [s]."""
    poses, index = robot.forward_kinematics(joint_q, links), np.arange(len(worlds))
    given = {"initial_joint_q": robot.mid_joint_q, "world": worlds, "world_index": index}
    result = solver.solve(poses.positions, poses.orientations_xyzw, **given)
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        result = solver.solve(poses.positions, poses.orientations_xyzw, **given)
        times.append(time.process_time() - begin)
    answers = zip(joint_q, result.joint_q.astype(float), worlds, strict=True)
    goal_free, own_free = np.array([robot.collision([goal, own], world).is_free for goal, own, world in answers]).T
    return int(goal_free.sum()), int(result.success.sum()), int((result.success & ~own_free).sum()), min(times)


if __name__ == "__main__":
    resources = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path()
    measured("Goals of MotionBenchMaker", __doc__, lambda report: show(report, resources))
