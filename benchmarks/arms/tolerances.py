"""Free axes and tolerances of targets: are answers within them, and what do they take?

python -m benchmarks.arms.tolerances [--write benchmarks/arms/tolerances.md]

Answers are judged by kinematics of the host in float64, and the axis of a tool by the angle between two vectors.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Report, machine, measured
from ik_service import IKSolver, RobotModel, SolverOptions, Target, load_robot
from ik_service.mechanism.transforms import quaternion_multiply, quaternion_rotate

Array = NDArray[np.float64]
COUNT, SEED, REPEATS = 1000, 7, 9
CONE = float(np.radians(10.0))
BOX = np.array([0.005, 0.005, 0.05, 0.02, 0.02, 0.2])  # [m] and [rad], in the target's frame
ARMS = (("panda", "panda_hand"), ("ur5e", "tool0"), ("iiwa14", "iiwa_link_ee"))
OPTIONS = SolverOptions()
SLACK = 1e-9  # [rad]: of the judge


def drawn(robot: RobotModel, link: str) -> tuple[Array, Array]:
    """Return where a link is in random configurations, turned about its z axis by any angle."""
    rng = np.random.default_rng(SEED)
    poses = robot.forward_kinematics(robot.random_joint_q(rng, COUNT), [link])
    half = 0.5 * rng.uniform(-np.pi, np.pi, COUNT)
    roll = np.stack([0.0 * half, 0.0 * half, np.sin(half), np.cos(half)], axis=1)
    return poses.positions[:, 0], quaternion_multiply(poses.orientations_xyzw[:, 0], roll)


def tilts(turns: Array, wanted: Array) -> Array:
    """Return the angles between z axes [rad]."""
    up = np.broadcast_to([0.0, 0.0, 1.0], (len(turns), 3))
    tool, aim = quaternion_rotate(turns, up), quaternion_rotate(wanted, up)
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(tool, aim), axis=1), (tool * aim).sum(axis=1)))


def outside(poses: Any, positions: Array, turns: Array, tolerance: Array) -> NDArray[np.bool_]:
    """Return which poses are outside of a box in the frame of the target, by distances and by rotation rows."""
    back = turns * [-1.0, -1.0, -1.0, 1.0]
    shift = quaternion_rotate(back, poses.positions[:, 0] - positions)
    error = quaternion_multiply(back, poses.orientations_xyzw[:, 0])
    bound = np.concatenate([tolerance[:3], np.sin(0.5 * tolerance[3:])])
    return np.asarray((np.abs(np.concatenate([shift, error[:, :3]], axis=1)) > bound).any(axis=1))


def microseconds(solver: IKSolver, *given: Array) -> float:
    """Return the least CPU time of a target [us]."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        solver.solve(*given)
        times.append(time.process_time() - began)
    return 1e6 * min(times) / COUNT


def asked(link: str) -> dict[str, Target]:
    """Return the targets, by what is asked for."""
    cone = [0.0, 0.0, 0.0, CONE, CONE, 0.0]
    return {
        "the whole pose": Target(link),
        "`row_weights=[1, 1, 1, 1, 1, 0]`": Target(link, row_weights=[1, 1, 1, 1, 1, 0]),
        '`free=["rz"]`': Target(link, free=["rz"]),
        '`free=["rz"]`, cone of 10 degrees': Target(link, free=["rz"], tolerance=cone),
        "box in the target's frame": Target(link, tolerance=BOX, frame="target"),
    }


def show_arms(report: Report) -> None:
    """Answers of three arms, each target of each kind."""
    report.section(
        "In Python",
        f"{COUNT} poses of random configurations for each arm, rolled about the tool's axis by any angle, one thread. "
        "`row_weights` frees the z axis of the world, `free` that of the tool. Tilt: angle between the axis of the "
        "tool and where it is to be, of successes. Violated: successes outside of what was asked, by the judge.",
    )
    report.table("robot", "asked for", "success", "tilt, median and largest [degrees]", "violated", "us a target")
    violated, least = 0, 1.0
    for name, link in ARMS:
        robot = load_robot(name, collision="ignore")
        positions, turns = drawn(robot, link)
        for what, target in asked(link).items():
            solver = IKSolver(robot, [target], device="cpu")
            result = solver.solve(positions, turns)
            poses = robot.forward_kinematics(result.joint_q.astype(np.float64), [link])
            met, tilt = result.success, tilts(poses.orientations_xyzw[:, 0], turns)
            far = np.linalg.norm(poses.positions[:, 0] - positions, axis=1) > OPTIONS.position_tolerance
            if "box" in what:
                wrong = outside(poses, positions, turns, BOX)
            elif "row_weights" in what:
                wrong = far
            else:
                wrong = far | (tilt > (CONE if "cone" in what else OPTIONS.orientation_tolerance) + SLACK)
            violated += int((met & wrong).sum())
            least = least if "row_weights" in what else min(least, float(met.mean()))
            degrees = np.degrees(tilt[met])
            report.row(
                name,
                what,
                f"{100 * met.mean():.1f} %",
                f"{np.median(degrees):.2g}, {degrees.max():.2g}",
                int((met & wrong).sum()),
                f"{microseconds(solver, positions, turns):.2f}",
            )
    report.line("")
    report.claim("successes outside of what was asked", f"{violated}", "0", violated == 0)
    report.claim("least share of successes", f"{100 * least:.1f} %", "at least 99 %", least >= 0.99)


@contextmanager
def service() -> Iterator[str]:
    """Serve the built-in robots in this process for a while; give the address."""
    import uvicorn

    from ik_service.service.app import create_app
    from ik_service.settings import ServiceSettings

    app = create_app(ServiceSettings(device="cpu", insecure=True), compile_apart=False)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def show_service(report: Report) -> None:
    """The same over HTTP."""
    from ik_service.client import Client, SolveTarget

    report.section(
        "Over HTTP", f"The same {COUNT} targets of the Panda with the roll of the tool free, in one request."
    )
    robot = load_robot("panda")
    positions, turns = drawn(robot, "panda_hand")
    target = SolveTarget(link="panda_hand", positions=positions, orientations_xyzw=turns, free=["rz"])
    with service() as url, Client(url) as client:
        result = client.solve("panda", targets=[target], options={"collision": "off"})
    joint_q, met = np.asarray(result.joint_q, np.float64), np.asarray(result.success, bool)
    tilt = tilts(robot.forward_kinematics(joint_q, ["panda_hand"]).orientations_xyzw[:, 0], turns)
    own = IKSolver(robot, [Target("panda_hand", free=["rz"])], device="cpu", options=SolverOptions(collision="off"))
    same = own.solve(positions, turns).joint_q.tobytes() == joint_q.astype(np.float32).tobytes()
    report.claim("success", f"{100 * met.mean():.1f} %", "at least 99 %", met.mean() >= 0.99)
    kept = int((tilt[met] <= OPTIONS.orientation_tolerance + SLACK).sum())
    report.claim("axis within tolerance", f"{kept} of {int(met.sum())} successes", "all", kept == met.sum())
    report.claim("bytes of Python", "the same" if same else "others", "the same", same)


def show(report: Report) -> None:
    """Print all sections."""
    report.line(f"\n{machine()}.")
    show_arms(report)
    show_service(report)


if __name__ == "__main__":
    measured("Free axes and tolerances", __doc__, show)
