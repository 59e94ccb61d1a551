"""Paths of 1000 waypoints by `IKSolver.follow`: time, breaks, speeds; lines that no motion follows, by a graph."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems.tick_paths import panda_paths
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service import IKSolver, load_robot
from ik_service.control import ControlLimits, IKController
from ik_service.robots import RobotModel, builtin_urdf, load_urdf

WAYPOINTS, DT, SLOW = 1000, 0.01, 0.02  # [s] between waypoints of the paths, of the lines
HAND = "panda_hand"
HOME = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.8, 0.7])
BOUND_MS = 25.0  # of a path without a break
EACH, SAMPLES = 8, 128  # the graph: every eighth waypoint, solutions of each
LIFT = """<link name="floor"/><joint name="lift" type="prismatic"><parent link="floor"/><child link="panda_link0"/>
<axis xyz="0 0 1"/><limit lower="0" upper="0.5" velocity="0.1" effort="100"/></joint>"""
Array = NDArray[np.float64]


def swing(home: Array, reach: float) -> Array:
    """Return joints that swing, each in its own phase, [waypoints, joints]."""
    phase, turn = np.arange(len(home)), np.linspace(0.0, 2.0 * np.pi, WAYPOINTS)[:, None]
    return np.asarray(home + reach * (np.sin(turn + phase) - np.sin(phase)))


def straight_lines(robot: RobotModel, count: int) -> list[tuple[Array, Array]]:
    """Return lines of the hand between random configurations: positions and orientations of their waypoints."""
    rng, lines = np.random.default_rng(0), []
    s = np.linspace(0.0, 1.0, WAYPOINTS)[:, None]
    share = s * s * (3.0 - 2.0 * s)
    for _ in range(count):
        poses = robot.forward_kinematics(robot.random_joint_q(rng, 2), links=[HAND])
        first, last = poses.orientations_xyzw[:, 0]
        last = last * np.sign(first @ last)
        angle = np.arccos(np.clip(first @ last, -1.0, 1.0))
        turned = (np.sin((1.0 - share) * angle) * first + np.sin(share * angle) * last) / np.sin(angle)
        lines.append(((1.0 - share) * poses.positions[0] + share * poses.positions[1], turned))
    return lines


def breaks_of_graph(solver: IKSolver, positions: Array, orientations: Array) -> int:
    """Return how often no sampled solution is within the speed limits of one that was reached before."""
    places = np.unique(np.append(np.arange(0, len(positions), EACH), len(positions) - 1))
    found = solver.solve(positions[places], orientations[places], options={"solutions": SAMPLES})
    step, count = solver.robot.joint_velocity_limit * SLOW, 0
    reached = np.ones(int(found.solution_count[0]), dtype=np.bool_)
    for k in range(1, len(places)):
        before, after = (found.solutions[j][: found.solution_count[j]] for j in (k - 1, k))
        most = step * (places[k] - places[k - 1])
        reached = ((np.abs(after[:, None] - before[None]) <= most).all(axis=-1) & reached).any(axis=1)
        if not reached.any():
            count, reached = count + 1, np.ones(len(after), dtype=np.bool_)
    return count


def show(report: Report, lines: int, repeats: int) -> None:
    """Follow the named paths and the lines, judged by float64 kinematics."""
    panda = load_robot("panda", collision="ignore")
    solver = IKSolver(panda, [HAND], device="cpu")
    paths = {
        name: (solver, path.poses[:, :3], path.poses[:, 3:]) for name, path in panda_paths(panda, WAYPOINTS).items()
    }
    lifted = load_urdf(builtin_urdf("panda").decode().replace("</robot>", LIFT + "</robot>"), collision="ignore")
    for name, robot, joint_q in (
        ("dual_panda, all joints swing", load_robot("dual_panda", collision="ignore"), swing(np.tile(HOME, 2), 0.3)),
        ("panda on a lift of 0.1 m/s", lifted, swing(np.array([0.2, *HOME]), 0.2)),
    ):
        links = ["left_panda_hand", "right_panda_hand"] if "dual" in name else [HAND]
        poses = robot.forward_kinematics(joint_q, links=links)
        paths[name] = IKSolver(robot, links, device="cpu"), poses.positions, poses.orientations_xyzw
    report.table("path", "ms", "met", "largest step [rad or m]", "beyond the speeds", "breaks", "error [m]")
    for name, (own, *given) in paths.items():
        path, times = timed(lambda own=own, given=given: own.follow(*given, DT), repeats, 1)
        poses = own.robot.forward_kinematics(path.joint_q, links=[target.link for target in own.targets])
        far = np.linalg.norm(poses.positions - given[0].reshape(poses.positions.shape), axis=-1).max(axis=1)
        over = int((~path.within_limits).sum())
        cells = f"{path.success.mean():.1%}", f"{path.largest_joint_change:.4f}", over, path.reconfigurations
        report.row(name, f"{1e-3 * times.median:.1f}", *cells, f"{far[path.success].max():.1g}")
        if path.success.all():
            report.claim(f"{name} [ms]", f"{1e-3 * times.median:.1f}", BOUND_MS, 1e-3 * times.median <= BOUND_MS)
            report.claim(f"{name}: waypoints beyond the speeds", over, 0, over == 0)
    _show_lines(report, solver, lines)


def _show_lines(report: Report, solver: IKSolver, count: int) -> None:
    report.section(
        "Straight lines",
        f"{count} straight lines of a hand between random poses, {WAYPOINTS} waypoints {1e3 * SLOW:g} ms apart. "
        f"The graph has up to {SAMPLES} solutions of each {EACH}th waypoint, and the steps between them within the "
        "speeds: an independent count of the breaks that a path must have. The ticks of a controller begin at the "
        "start of the path that was followed, and fall behind where they cannot keep up.",
    )
    controller = IKController(solver.robot, [HAND], limits=ControlLimits())
    whole = followed = by_graph = by_ticks = 0
    report.table("line", "breaks of follow", "beyond the speeds", "breaks of the graph", "waypoints met by ticks")
    for number, line in enumerate(straight_lines(solver.robot, count)):
        path = solver.follow(*line, SLOW)
        if not path.success.all():
            continue
        whole += 1
        ticks = controller.follow(*line, SLOW, start_joint_q=path.joint_q[0]).success
        graph, over = breaks_of_graph(solver, *line), int((~path.within_limits).sum())
        followed, by_graph, by_ticks = followed + (over == 0), by_graph + (graph == 0), by_ticks + bool(ticks.all())
        if over or graph:
            report.row(number, path.reconfigurations, over, graph, f"{ticks.mean():.1%}")
    report.claim(
        "whole lines without a break within the speeds", f"{followed} of {whole}", by_graph, followed >= by_graph
    )
    report.line(f"- The graph has {by_graph} lines without a break; ticks meet all waypoints of {by_ticks}.")


if __name__ == "__main__":
    benchmark(
        "Following a path",
        show,
        f"{WAYPOINTS} waypoints, {1e3 * DT:g} ms apart, by `IKSolver.follow` from no start.",
        sizes={"lines": (10, 60), "repeats": (2, 5)},
    )
