"""Answers in random worlds, judged sphere by sphere in NumPy, and by coal on meshes where a robot has some.

Targets are poses of random configurations that are free of contact in their world. The foreign robots of
example-robot-data get their spheres as `ik-service spheres --stands-out 0.02 --looks-out 0.01` would give them. coal
checks the pairs of links that the model checks or leaves out as never in contact, on the meshes themselves.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import ik_service
from benchmarks.problems.compared_robots import BUILTIN_ROBOTS, KINOVA, UR5, XARM7, Z1, ComparedRobot
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service.collision.covering import cover_solid, rounded
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.robots import Box, Capsule, Cylinder, RobotModel, Sphere, World, choose_pairs, without_contacts
from ik_service.robots.readers.catalog import link_shapes
from ik_service.robots.readers.fitted_spheres import link_solids

WORLDS, OBJECTS, SEED = 20, 12, 0
CONFIGURATIONS = 2000  # for coal
STANDS_OUT, LOOKS_OUT = 0.02, 0.01
BOUND = 100_000


@dataclass(frozen=True)
class JudgedRobot:
    """A robot that is judged."""

    robot: ComparedRobot  # name, file and links
    from_meshes: bool = False  # whether its spheres are fitted here, to its own meshes
    reach: float = 0.9  # objects stand up to so far from its base [m]

    @cached_property
    def model(self) -> RobotModel:
        """The robot with its collision model."""
        if not self.from_meshes:
            return ik_service.load_robot(self.robot.file)
        plain, solids = self.robot.robot, link_solids(link_shapes(self.robot.path), self.robot.path)
        spheres = {link: rounded(cover_solid(solid, STANDS_OUT, LOOKS_OUT)) for link, solid in solids.items()}
        model = without_contacts(plain, choose_pairs(plain, spheres), plain.mid_joint_q)
        return plain.with_collision_model(model)


ROBOTS = (
    *(JudgedRobot(BUILTIN_ROBOTS[name]) for name in ("panda", "ur5e", "iiwa14", "dual_panda")),
    JudgedRobot(ComparedRobot("humanoid", "humanoid", ("left_grasp", "right_grasp")), reach=0.6),
    *(JudgedRobot(arm, from_meshes=True) for arm in (UR5, XARM7, KINOVA)),
    JudgedRobot(Z1, from_meshes=True, reach=0.6),
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

    def __init__(self, robot: ComparedRobot, model: CollisionModel) -> None:
        file = robot.path
        packages = [str(folder) for folder in file.parents]
        self._model = pin.buildModelFromUrdf(str(file))
        self._shapes = pin.buildGeomFromUrdf(self._model, str(file), pin.GeometryType.COLLISION, package_dirs=packages)
        numbers: dict[str, list[int]] = {}
        for number, shape in enumerate(self._shapes.geometryObjects):
            numbers.setdefault(shape.name.rpartition("_")[0], []).append(number)
        for a, b in (*model.pairs, *model.left_out["never in contact"]):
            for one in numbers.get(a, ()):
                for other in numbers.get(b, ()):
                    self._shapes.addCollisionPair(pin.CollisionPair(one, other))
        self._data, self._found = self._model.createData(), self._shapes.createData()

    def is_free(self, joint_q: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which configurations touch nothing of themselves; joints that the model lacks stand in the middle."""
        middle = 0.5 * (self._model.lowerPositionLimit + self._model.upperPositionLimit)
        free = []
        for q in joint_q.astype(float):
            whole = np.append(q, middle[len(q) :])
            free.append(not pin.computeCollisions(self._model, self._data, self._shapes, self._found, whole, True))
        return np.array(free)


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
        f"Spheres beside meshes: {CONFIGURATIONS} random configurations",
        "Against themselves alone. Refused are those that are free by coal on the meshes and not by the spheres; "
        "passed are those in contact by the meshes and free by the spheres.",
        *("robot", "free by meshes", "free by spheres", "refused", "passed", "solved, then in contact by meshes"),
    )
    for judged in ROBOTS:
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
    judge = MeshJudge(judged.robot if judged.from_meshes else PANDA_MESHES, model)
    joint_q = robot.random_joint_q(np.random.default_rng(SEED), CONFIGURATIONS)
    meshes, spheres = judge.is_free(joint_q), robot.collision(joint_q).is_free
    poses = robot.forward_kinematics(joint_q, list(judged.robot.links))
    solver = ik_service.IKSolver(robot, list(judged.robot.links), device="cpu")
    result = solver.solve(poses.positions, poses.orientations_xyzw)
    touching = ~judge.is_free(result.joint_q[result.success])
    shares = (meshes.mean(), spheres.mean(), (meshes & ~spheres).mean(), (~meshes & spheres).mean(), touching.mean())
    report.row(judged.robot.name, *(f"{100 * share:.2f} %" for share in shares))


if __name__ == "__main__":
    benchmark("Judged answers", show, sizes={"problems": 12_000})
