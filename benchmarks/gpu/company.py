"""A GPU that several threads use at once, and a first use with an empty cache of kernels."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import warp as wp

import ik_service
from benchmarks.report import Report
from ik_service.control import ControlLimits, IKController

COUNTS = 1, 7, 500, 5000  # of problems, in turns at random
THREADS = 1, 2, 3
TICKS, DT = 300, 1e-3  # of a circle
FIRST_USE_S = 120.0
FIRST_USE = """
import sys, time
began = time.perf_counter()
import numpy as np, ik_service
solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"], device=sys.argv[1])
result = solver.solve(np.array([[0.4, 0.1, 0.5]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
print(result.success.all(), time.perf_counter() - began)
"""


def show_company(report: Report, device: wp.Device, seconds: float) -> None:
    """Report whether ticks of a controller and solves of two solvers, each in a thread, are as alone."""
    report.section(
        "In other threads",
        f"A controller's ticks and the solves of two solvers, each in a thread, for {seconds:g} s: bytes of each tick "
        "and each solve beside those of the same alone.",
    )
    robot = ik_service.load_robot("panda", collision="ignore")
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(7), max(COUNTS)), ["panda_hand"])
    given = poses.positions.astype(np.float32), poses.orientations_xyzw.astype(np.float32)
    alone = ik_service.IKSolver(robot, ["panda_hand"], device=str(device)).solve(*given).joint_q
    commands, found, done = ticks(robot, device), list[str](), {"ticks": 0}
    solves = [0, 0]
    ends = time.monotonic() + seconds

    def control() -> None:
        while time.monotonic() < ends:
            if ticks(robot, device) != commands:
                found.append("other commands")
            done["ticks"] += TICKS

    def solve(place: int) -> None:
        rng, solver = np.random.default_rng(place), ik_service.IKSolver(robot, ["panda_hand"], device=str(device))
        while time.monotonic() < ends:
            count = int(rng.choice(COUNTS))
            answer = solver.solve(*(one[:count] for one in given)).joint_q
            if answer.tobytes() != alone[:count].tobytes():
                found.append(f"other answers of {count}")
            solves[place] += 1

    def guarded(work: Callable[..., None], *arguments: int) -> None:
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a card or its driver raises is a finding
            found.append(f"{type(error).__name__}: {error}")

    work = (control,), (solve, 0), (solve, 1)
    threads = [threading.Thread(target=guarded, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    what = f"differences in {done['ticks']} ticks and {sum(solves)} solves"
    passed = not found and done["ticks"] > 0 and all(solves)
    report.claim(what, "; ".join(found[:3]) or "none", "none", passed)


def show_deadline(report: Report, device: wp.Device, count: int) -> None:
    """Report how late a solve ends that has a deadline, and whether the next one is as before."""
    report.section(
        "Deadlines",
        f"{count} targets, all out of reach, with 4096 seeds, and the same with a deadline of a tenth of that time.",
    )
    robot = ik_service.load_robot("dual_panda", collision="ignore")
    hands = ["left_panda_hand", "right_panda_hand"]
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(7), count), hands)
    given = (3.0 * poses.positions).astype(np.float32), poses.orientations_xyzw.astype(np.float32)
    solver = ik_service.IKSolver(robot, hands, device=str(device), islands=False)
    options: dict[str, object] = {"seeds": 4096}
    solver.warmup(*given, options=options)
    solver.warmup(*given, options={**options, "deadline_s": 1e6})

    def timed(**more: object) -> tuple[float, ik_service.IKResult]:
        began = time.perf_counter()
        result = solver.solve(*given, options={**options, **more})
        return time.perf_counter() - began, result

    whole_s, expected = timed()
    ended_s, ended = timed(deadline_s=0.1 * whole_s)
    _, again = timed()
    late = int((ended.status == ik_service.IKStatus.DEADLINE).sum())
    report.line(f"- {1e3 * whole_s:.1f} ms without, {1e3 * ended_s:.1f} ms with a deadline of {100.0 * whole_s:.1f} ms")
    report.claim("problems that the deadline has ended", f"{late}", "above 0", late > 0)
    same = again.joint_q.tobytes() == expected.joint_q.tobytes()
    report.claim("bytes of the next solve", "the same" if same else "others", "the same", same)


def ticks(robot: ik_service.RobotModel, device: wp.Device) -> bytes:
    """Return the commands of a circle of 0.1 m."""
    controller = IKController(robot, ["panda_hand"], limits=ControlLimits(acceleration=10.0), device=str(device))
    start = robot.mid_joint_q
    pose = robot.forward_kinematics(start, ["panda_hand"])
    controller.reset(start)
    target, commands = np.concatenate([pose.positions[0, 0], pose.orientations_xyzw[0, 0]]), []
    for angle in 2.0 * np.pi * np.arange(TICKS) / TICKS:
        moved = target + np.array([0.1 * (np.cos(angle) - 1.0), 0.1 * np.sin(angle), *[0.0] * 5])
        commands.append(controller.step(moved, dt=DT).joint_q.copy())
    return np.concatenate(commands).tobytes()


def show_threads(report: Report, device: wp.Device, count: int, seconds: float) -> None:
    """Report how many targets several solvers solve, each in a thread: copies of one beside the solves of others."""
    report.section(
        "Several threads",
        f"Batches of {count} Panda targets, NumPy arrays in and out, by as many solvers as threads: while the host "
        "copies for one, the device solves for another.",
    )
    report.table("threads", "targets/s")
    robot = ik_service.load_robot("panda", collision="ignore")
    poses = robot.forward_kinematics(robot.random_joint_q(np.random.default_rng(7), count), ["panda_hand"])
    given = poses.positions.astype(np.float32), poses.orientations_xyzw.astype(np.float32)
    for number in THREADS:
        solvers = [ik_service.IKSolver(robot, ["panda_hand"], device=str(device)) for _ in range(number)]
        for solver in solvers:
            solver.warmup(*given)

        def solve(solver: ik_service.IKSolver, ends: float) -> int:
            solved = 0
            while time.perf_counter() < ends:
                solved += len(solver.solve(*given))
            return solved

        began = time.perf_counter()
        with ThreadPoolExecutor(number) as threads:
            solved = sum(threads.map(solve, solvers, [began + seconds] * number))
        report.row(number, f"{solved / (time.perf_counter() - began):,.0f}")


def show_first_use(report: Report, device: wp.Device) -> None:
    """Report how long the first solve of a process takes where nothing has been compiled before."""
    report.section("A first use", "The package imported, a robot loaded and a target solved, with no compiled kernels.")
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [sys.executable, "-c", FIRST_USE, str(device)],
            env={**os.environ, "WARP_CACHE_PATH": folder, "IK_SERVICE_SHIPPED_KERNELS": ""},
            capture_output=True,
            text=True,
            timeout=FIRST_USE_S,
            check=True,
        )
    solved, seconds = process.stdout.split()[-2:]
    report.claim("solved", f"{solved}, in {float(seconds):.1f} s", "True", solved == "True")
