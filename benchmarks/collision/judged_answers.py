"""Answers in random worlds, judged sphere by sphere in NumPy, and by coal on meshes where a robot has some.

Targets are poses of random configurations that are free of contact in their world. The foreign robots of
example-robot-data get their spheres by `load_robot(file, collision="spheres")`. coal
checks the pairs of links that the model checks or leaves out as never in contact, on the meshes themselves.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import (
    ALLEGRO_TIPS,
    BUILTIN_ROBOTS,
    G1,
    KINOVA,
    TIAGO_HANDS,
    UR5,
    XARM7,
    Z1,
    ComparedRobot,
)
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.robots import Box, Capsule, Cylinder, RobotModel, Sphere, World
from ik_service.robots.readers.sphere_fit import APART

WORLDS, OBJECTS, SEED = 20, 12, 0
CONFIGURATIONS = 2000
BOUND = 100_000


@dataclass(frozen=True)
class JudgedRobot:
    """A robot that is judged."""

    robot: ComparedRobot  # name, file and links
    from_meshes: bool = False  # whether its spheres are fitted here, to its own meshes
    starts_at_zero: bool = False  # whether solves without a world start there
    configurations: int = CONFIGURATIONS  # for coal; five times as many targets without a world
    reach: float = 0.9  # objects stand up to so far from its base [m]

    @cached_property
    def model(self) -> RobotModel:
        """The robot with its collision model."""
        if not self.from_meshes:
            return ik_service.load_robot(self.robot.file)
        return self.fitted[0]

    @cached_property
    def fitted(self) -> tuple[RobotModel, float]:
        """The robot with spheres fitted to its meshes, and the CPU time of loading [s]."""
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, XDG_CACHE_HOME=folder):
            start = time.process_time()
            robot = ik_service.load_robot(self.robot.path, collision="spheres")
        return robot, time.process_time() - start


ROBOTS = (
    *(JudgedRobot(BUILTIN_ROBOTS[name]) for name in ("panda", "ur5e", "iiwa14", "dual_panda")),
    JudgedRobot(ComparedRobot("humanoid", "humanoid", ("left_grasp", "right_grasp")), reach=0.6),
    *(JudgedRobot(arm, from_meshes=True) for arm in (UR5, XARM7, KINOVA)),
    JudgedRobot(Z1, from_meshes=True, reach=0.6),
)
MESHES_ALONE = (
    JudgedRobot(G1, from_meshes=True),
    JudgedRobot(ComparedRobot("Allegro", "allegro_hand_description/urdf/allegro_right_hand.urdf", ALLEGRO_TIPS), True),
    JudgedRobot(ComparedRobot("TIAGo dual", "tiago_description/robots/tiago_dual.urdf", TIAGO_HANDS), True, True, 100),
)
PANDA_MESHES = ComparedRobot("panda", "panda_description/urdf/panda.urdf", ())


def random_world(rng: np.random.Generator, reach: float) -> World:
    """Return a world of objects around a robot."""
    objects: dict[str, Any] = {}
    for k in range(OBJECTS):
        angle, far = rng.uniform(-np.pi, np.pi), rng.uniform(0.5, 1.0) * reach
        turn = rng.normal(size=4)
        pose = (far * np.cos(angle), far * np.sin(angle), rng.uniform(0.0, 1.2) * reach, *turn / np.linalg.norm(turn))
        width, length = rng.uniform(0.02, 0.08), rng.uniform(0.05, 0.3)
        shapes = (Box((width, 2.0 * width, length), pose), Capsule(width, length, pose), Cylinder(width, length, pose))
        objects[f"object {k}"] = (*shapes, Sphere(width, pose[:3]))[k % 4]
    return World(objects)


class MeshJudge:
    """Checks a robot against itself by coal, on its meshes."""

    def __init__(self, robot: ComparedRobot, names: tuple[str, ...], model: CollisionModel) -> None:
        file, self._names = robot.path, names
        packages = [str(folder) for folder in file.parents]
        self._model = pin.buildModelFromUrdf(str(file))
        self._shapes = pin.buildGeomFromUrdf(self._model, str(file), pin.GeometryType.COLLISION, package_dirs=packages)
        numbers: dict[str, list[int]] = {}
        for number, shape in enumerate(self._shapes.geometryObjects):
            numbers.setdefault(shape.name.rpartition("_")[0], []).append(number)
        for a, b in (*model.pairs, *model.left_out["never in contact"], *model.left_out.get(APART, ())):
            for one in numbers.get(a, ()):
                for other in numbers.get(b, ()):
                    self._shapes.addCollisionPair(pin.CollisionPair(one, other))
        self._data, self._found = self._model.createData(), self._shapes.createData()

    def is_free(self, joint_q: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which configurations touch nothing of themselves; joints that the model lacks stand at zero."""
        whole = np.tile(pin.neutral(self._model), (len(joint_q), 1))
        for k, name in enumerate(self._names):
            if self._model.existJointName(name):
                joint = self._model.joints[self._model.getJointId(name)]
                given = joint_q[:, [k]].astype(float)
                numbers = np.hstack([np.cos(given), np.sin(given)]) if joint.nq == 2 else given
                whole[:, joint.idx_q : joint.idx_q + joint.nq] = numbers
        hit = [pin.computeCollisions(self._model, self._data, self._shapes, self._found, q, True) for q in whole]
        return ~np.array(hit)


def show(report: Report, *, problems: int) -> None:
    """Judge all robots."""
    report.section(
        f"{problems} targets of each robot in {WORLDS} worlds of {OBJECTS} objects, one core",
        "The targets are poses in free configurations. A success in contact would be one that NumPy "
        "finds in contact, sphere by sphere in float64. CPU time is that of the first call of a warm solver.",
        *("robot", "spheres", "pairs", "us per target", "solved", "successes in contact"),
    )
    wrong = total = 0
    for judged in ROBOTS:
        counts = _show_robot(report, judged, problems)
        total, wrong = total + counts[0], wrong + counts[1]
    report.claim("successes in contact", f"{wrong} of {total} problems", f"0 of {BOUND}", wrong == 0 and total >= BOUND)
    report.section(
        f"Spheres beside meshes: {CONFIGURATIONS} random configurations, 100 of the TIAGo",
        "Against themselves alone. Refused are those that are free by coal on the meshes and not by the spheres; "
        "passed are those in contact by the meshes and free by the spheres. Solved: poses of five times as "
        "many configurations that are free by the spheres. CPU times of one core; spheres of the Panda come with it.",
        *("robot", "spheres", "fit, s", "free by meshes", "free by spheres", "refused", "passed"),
        *("solved", "us per target", "solved, then in contact by meshes"),
    )
    for judged in (*ROBOTS, *MESHES_ALONE):
        if judged.from_meshes or judged.robot is ROBOTS[0].robot:
            _show_meshes(report, judged)


def _show_robot(report: Report, judged: JudgedRobot, problems: int) -> tuple[int, int]:
    robot, links, rng = judged.model, list(judged.robot.links), np.random.default_rng(SEED)
    worlds = [random_world(rng, judged.reach) for _ in range(WORLDS)]
    each = problems // WORLDS
    joint_q = np.concatenate([robot.random_free_joint_q(rng, each, world) for world in worlds])
    poses, index = robot.forward_kinematics(joint_q, links), np.repeat(np.arange(WORLDS), each)
    solver = ik_service.IKSolver(robot, links, device="cpu")
    given = {"world": worlds, "world_index": index}
    result, times = timed(partial(solver.solve, poses.positions, poses.orientations_xyzw, **given), 1)
    parts = zip(np.array_split(result.joint_q.astype(float), WORLDS), worlds, strict=True)
    free = np.concatenate([robot.collision(part, world).is_free for part, world in parts])
    model = robot.collision_model
    wrong = int((result.success & ~free).sum())
    figures = (f"{times.median:.1f}", f"{100 * result.success.mean():.2f} %")
    report.row(judged.robot.name, model.sphere_count, len(model.pairs), *figures, wrong)
    return len(joint_q), wrong


def _show_meshes(report: Report, judged: JudgedRobot) -> None:
    robot, model = judged.model, judged.model.collision_model
    judge = MeshJudge(judged.robot if judged.from_meshes else PANDA_MESHES, robot.coordinate_names, model)
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), judged.configurations)
    meshes, spheres = judge.is_free(joint_q), robot.collision(joint_q).is_free
    targets = robot.random_free_joint_q(np.random.default_rng(SEED + 1), 5 * judged.configurations)
    poses = robot.forward_kinematics(targets, list(judged.robot.links))
    solver = ik_service.IKSolver(robot, list(judged.robot.links), device="cpu")
    start = robot.clamp_joint_q(np.zeros(robot.joint_coord_count))[0]  # at mid-range fingers of the TIAGo touch
    given = {"initial_joint_q": np.tile(start, (len(targets), 1))} if judged.starts_at_zero else {}
    result, times = timed(partial(solver.solve, poses.positions, poses.orientations_xyzw, **given), 3)
    touching = ~judge.is_free(result.joint_q[result.success][: judged.configurations])
    shares = (meshes.mean(), spheres.mean(), (meshes & ~spheres).mean(), (~meshes & spheres).mean())
    fit = f"{judged.fitted[1]:.1f}" if judged.from_meshes else ""
    told = (f"{100 * share:.2f} %" for share in (*shares, result.success.mean()))
    figures = (f"{times.median:.1f}", f"{100 * touching.mean():.2f} %")
    report.row(judged.robot.name, model.sphere_count, fit, *told, *figures)


if __name__ == "__main__":
    benchmark("Judged answers", show, sizes={"problems": 12_000})
