"""Alike rows as loops: distances of 10 to 1000 pairs of spheres beside a pose target.

python -m benchmarks.engines.alike_rows [--write benchmarks/engines/alike_rows.md]
"""

import time
from dataclasses import dataclass

import numpy as np

import ik_service
from benchmarks.problems.compared_robots import installed
from benchmarks.report import Report, machine, measured
from ik_service.robots import RobotModel
from objectives.data_field import DataField
from objectives.expression import maximum, sqrt
from objectives.expression.element_table import Element
from objectives.expression.expression_objective import ExpressionObjective
from objectives.expression.frame_algebra import dot, subtract
from objectives.expression.rows import RowGroup, RowInputs
from objectives.robot_indices import BodyFrame

COUNTS, PROBLEMS, APART, MARGIN, TOLERANCE = (10, 100, 300, 1000), 256, 3, 0.01, 1e-3
ROBOTS = {  # package, file, and the link that has a target
    "Panda": ("frax", "franka_panda/panda.urdf", "panda_hand"),
    "Z1": ("example-robot-data", "z1_description/urdf/z1.urdf", "link06"),
    "UR10": ("example-robot-data", "ur_description/urdf/ur10_robot.urdf", "tool0"),
    "A2": ("frax", "unitree_a2/a2.urdf", "FL_foot"),
}


@dataclass(frozen=True)
class Sphere:
    """A sphere on a body."""

    body: int
    centre: tuple[float, float, float]
    radius: float


def sphere_rows(inputs: RowInputs) -> list:
    """How much nearer two spheres are than they should be [m]."""
    arm = subtract(inputs.frames["a"].position, inputs.frames["b"].position)
    wanted = inputs.data["margin"][0] + inputs.constants["radii"]
    return [maximum(wanted - sqrt(dot(arm, arm) + 1e-8), 0.0)]


SPHERES = RowGroup("pairs", 1, sphere_rows, frames=("a", "b"), data=(("margin", 1),), constants=("radii",))


class SpherePairs(ExpressionObjective):
    """Keep pairs of spheres apart."""

    def __init__(self, pairs: list[tuple[Sphere, Sphere]]) -> None:
        super().__init__([DataField("SpherePairs", "margin", 1, [MARGIN])], row_count=len(pairs))
        self.pairs = pairs

    def stated_elements(self, model: object) -> list:
        """Give an element for each pair."""

        def frame(one: Sphere) -> BodyFrame:
            return BodyFrame(one.body, (*one.centre, 0.0, 0.0, 0.0, 1.0))

        own = [
            Element((frame(a), frame(b)), data_columns=(0,), constants=(a.radius + b.radius,)) for a, b in self.pairs
        ]
        return [(SPHERES, own)]


def spheres_of(robot: RobotModel) -> list[Sphere]:
    """Return spheres about the origins of all bodies."""
    places = np.random.default_rng(0).uniform(-0.06, 0.06, (robot.body_count, 20, 3))
    return [Sphere(body, tuple(place), 0.04) for body in range(robot.body_count) for place in places[body]]


def pairs_of(robot: RobotModel, spheres: list[Sphere], count: int) -> list[tuple[Sphere, Sphere]]:
    """Return pairs on links that are no neighbours and free to move apart: they do not touch in most configurations."""
    pairs = [(a, b) for a in spheres for b in spheres if a.body - b.body >= APART]
    order = np.random.default_rng(1).permutation(len(pairs))
    q, found = robot.random_joint_q(np.random.default_rng(2), 64), []
    for k in order:
        if (depth(robot, q, [pairs[k]]) == 0.0).mean() > 0.9:
            found.append(pairs[k])
        if len(found) == count:
            return found
    raise SystemExit(f"{len(found)} pairs of {len(pairs)} can be apart; {count} are wanted")


def depth(robot: RobotModel, q: np.ndarray, pairs: list[tuple[Sphere, Sphere]]) -> np.ndarray:
    """Return the largest row of configurations, by kinematics of the host in float64."""
    poses = robot.forward_kinematics(q, list(link_of(robot).values()))
    place = {body: k for k, body in enumerate(link_of(robot))}
    worst = np.zeros(len(q))
    for pair in pairs:
        centres = []
        for one in pair:
            turn, k = poses.orientations_xyzw[:, place[one.body]], place[one.body]
            spin = 2.0 * np.cross(turn[:, :3], np.array(one.centre))
            centres.append(poses.positions[:, k] + one.centre + turn[:, 3:] * spin + np.cross(turn[:, :3], spin))
        distance = np.sqrt(((centres[0] - centres[1]) ** 2).sum(axis=1) + 1e-8)
        worst = np.maximum(worst, MARGIN + pair[0].radius + pair[1].radius - distance)
    return worst


def link_of(robot: RobotModel) -> dict[int, str]:
    """Return a link that has the frame of each body."""
    frames = {name: robot.link_frame(name) for name in robot.link_names}
    return {body: name for name, (body, offset) in frames.items() if body >= 0 and np.abs(offset[:6]).max() < 1e-9}


def measure(report: Report, name: str, robot: RobotModel, link: str, pairs: list[tuple[Sphere, Sphere]]) -> None:
    """Add the row of one robot and number of pairs."""
    q = robot.random_joint_q(np.random.default_rng(3), PROBLEMS)
    poses = robot.forward_kinematics(q, [link])
    given = poses.positions, poses.orientations_xyzw
    rows = SpherePairs(pairs)
    rows.set_row_tolerances(TOLERANCE)
    begin = time.process_time()
    solver = ik_service.IKSolver(robot, [link], objectives=[rows], device="cpu", engine="compiled")
    solver.solve(*given)
    cold, times = time.process_time() - begin, []
    one = ik_service.SolverOptions(seeds=1)
    for _ in range(5):
        begin = time.process_time()
        solver.solve(*given, options=one)
        times.append((time.process_time() - begin) / PROBLEMS * 1e6)
    result = solver.solve(*given)
    false = result.success & (depth(robot, result.joint_q.astype(np.float64), pairs) > TOLERANCE + 1e-6)
    blocked = depth(robot, q, pairs) > TOLERANCE
    cells = f"{cold:.1f}", f"{min(times):.1f}", f"{100 * result.success.mean():.1f}", f"{100 * blocked.mean():.0f}"
    report.row(name, len(pairs), *cells, int(false.sum()))
    if len(pairs) == COUNTS[-1]:
        report.missed += [] if cold <= 10.0 and min(times) <= 100.0 and not false.any() else [name]


def show(report: Report) -> None:
    """Measure and add the tables."""
    report.line("")
    report.line(
        f"{machine()}, one core. A pose target and pairs of spheres, each a row, that are to be {1e3 * MARGIN:.0f} mm "
        f"apart with a tolerance of {1e3 * TOLERANCE:.0f} mm; {PROBLEMS} random poses. Touch: share of "
        "these configurations in which spheres are too near. Cold: CPU seconds of making the solver and of the first "
        "solve, with all seeds. Attempt: CPU time of a problem with one seed. False: successes that kinematics of the "
        "host refutes. Bounds at 1000 pairs: 10 s, 100 us, none false."
    )
    report.line("")
    report.table("robot", "pairs", "cold [s]", "attempt [us]", "success [%]", "touch [%]", "false")
    for name, (package, ending, link) in ROBOTS.items():
        robot = ik_service.load_robot(installed(package, ending))
        robot.forward_kinematics(robot.mid_joint_q[None], [link])
        pairs = pairs_of(robot, spheres_of(robot), COUNTS[-1])
        for count in COUNTS:
            measure(report, name, robot, link, pairs[:count])


if __name__ == "__main__":
    measured("Alike rows as loops", __doc__, show)
