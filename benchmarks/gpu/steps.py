"""Steps of a first contact with a GPU, and what all steps are given: solvers on the device and on the CPU, targets.

Steps of this file: loops and contacts, whose answers are judged by the host in float64 beside those of the CPU; a GPU
that several threads use at once; deadlines; a first use with an empty cache of kernels.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import warp as wp
from numpy.typing import NDArray

import ik_service
from benchmarks.collision.free_answers import TABLE, cluttered, in_contact
from benchmarks.islands import mechanisms
from benchmarks.problems.compared_robots import LINKS
from benchmarks.problems.mechanisms import MECHANISMS, Mechanism
from benchmarks.problems.pose_problems import PoseProblems, link_poses
from benchmarks.report import Report
from benchmarks.run import fresh
from ik_service.control import ControlLimits, IKController
from ik_service.robots import World
from ik_service.solver.compiled import island_launches

SEED = 7
WARM_UP = 3  # calls: launches, a recording, and its first replay
CALLS_MIN = 5
CLOSED, NEAR = 1e-6, 1e-3  # [m]
CONTACTS: tuple[tuple[str, str, Callable[[], World | None]], ...] = (
    ("Panda, itself", "panda", lambda: None),
    ("Panda, itself and a table", "panda", lambda: World({"table": TABLE})),
    ("Panda, itself and 20 boxes", "panda", cluttered),
    ("two Pandas, themselves and each other", "dual_panda", lambda: None),
)
HEADS = "case", "µs", "targets/s", "success on the CPU", "on the device", "same seeds"
COUNTS = 1, 7, 500, 5000  # of problems, in turns at random
THREADS = 1, 2, 3
TICKS, DT = 300, 1e-3  # of a circle
FIRST_USE_S = 120.0
FIRST_USE = """
import json, os, sys, time
os.environ["IK_SERVICE_SHIPPED_KERNELS"] = ""
began = time.perf_counter()
import numpy as np, ik_service
solver = ik_service.IKSolver(ik_service.load_robot("panda"), ["panda_hand"], device=sys.argv[1])
result = solver.solve(np.array([[0.4, 0.1, 0.5]]), np.array([[1.0, 0.0, 0.0, 0.0]]))
print(json.dumps([bool(result.success.all()), time.perf_counter() - began]))
"""


@dataclass(frozen=True)
class Contact:
    """What all steps are given."""

    report: Report  # where figures go
    device: wp.Device
    count: int  # problems of each robot
    seconds: float  # time for the calls of each rate [s]
    robots: tuple[str, ...] = tuple(LINKS)  # names of robots

    def solver(self, name: str, device: str | None = None) -> ik_service.IKSolver:
        """Return a solver of a built-in robot by the compiled engine, where it can hold the robot."""
        return self.make(ik_service.load_robot(name, collision="ignore"), LINKS[name], device)

    def make(
        self, robot: ik_service.RobotModel, targets: Any, device: str | None = None, **settings: Any
    ) -> ik_service.IKSolver:
        """Return a solver of any robot on the device, or on another."""
        with ExitStack() as stack:
            if device is None and self.device.is_cpu:
                stack.enter_context(patch.object(island_launches, "in_threads", lambda _: True))
            return ik_service.IKSolver(robot, targets, device=device or str(self.device), **settings)

    def wall_times(self, run: Callable[[], object]) -> NDArray[np.float64]:
        """Return the wall time of each run [s], after a few to warm up, for so long and at least a few times."""
        times: list[float] = []
        while len(times) < WARM_UP + CALLS_MIN or sum(times[WARM_UP:]) < self.seconds:
            start = time.perf_counter()
            run()
            wp.synchronize_device(self.device)
            times.append(time.perf_counter() - start)
        return np.array(times[WARM_UP:])

    def rate(self, run: Callable[[], object], count: int, decimals: int = 0) -> tuple[str, str]:
        """Return the median of the wall times [us], and problems per second, as cells of a table."""
        median = float(np.median(self.wall_times(run)))
        return f"{1e6 * median:.{decimals}f}", f"{count / median:,.0f}"


def reachable(robot: ik_service.RobotModel, links: list[str], count: int) -> PoseProblems:
    """Return poses that random configurations reach, in float32."""
    return in_float32(PoseProblems.random(robot, links, count, SEED))


def in_float32(problems: PoseProblems) -> PoseProblems:
    """Return targets rounded to float32."""
    positions, orientations = (values.astype(np.float32) for values in problems.given)
    return replace(problems, positions=positions, orientations_xyzw=orientations)


def panda_controller(robot: ik_service.RobotModel, device: wp.Device) -> IKController:
    """Return a controller of a Panda's hand with limits of acceleration, where the circle begins."""
    controller = IKController(robot, LINKS["panda"], limits=ControlLimits(acceleration=10.0), device=str(device))
    controller.reset(robot.mid_joint_q)
    return controller


def circle(robot: ik_service.RobotModel, ticks: int) -> NDArray[np.float64]:
    """Return poses of a Panda's hand on a circle of 0.1 m, [ticks, 7]."""
    poses = np.tile(link_poses(robot, robot.mid_joint_q[None], *LINKS["panda"]), (ticks, 1))
    angle = 2.0 * np.pi * np.arange(ticks) / ticks
    poses[:, :2] += 0.1 * np.stack([np.cos(angle) - 1.0, np.sin(angle)], axis=1)
    return poses


def solved(contact: Contact, name: str, robot: Any, targets: Any, *given: Any, **world: Any) -> tuple[Any, list[str]]:
    """Return the answers of a device, and the cells of a row: time, success, same seeds."""
    solve = partial(contact.make(robot, targets).solve, *given, **world)
    result, beside = solve(), contact.make(robot, targets, "cpu").solve(*given, **world)
    same = (result.islands.seed_index == beside.islands.seed_index).all(axis=1).mean()
    shares = [f"{share:.2%}" for share in (beside.success.mean(), result.success.mean(), same)]
    return result, [name, *contact.rate(solve, len(result.success)), *shares]


def show_loops(contact: Contact, cases: tuple[Mechanism, ...] = MECHANISMS) -> None:
    """Report targets of mechanisms that close loops."""
    report, false = contact.report, 0
    report.section(
        "Loops",
        f"Targets of the end effectors of mechanisms, from {contact.count} random closed configurations. A success is "
        f"false where a loop is open by more than {CLOSED:g} m or the end effector is {NEAR:g} m off.",
        *(*HEADS, "largest gap [m]", "false"),
    )
    for case in cases:
        robot = ik_service.load_robot(case.name)
        wanted = mechanisms.pose(robot, case.configurations(contact.count, np.random.default_rng(SEED)), case.link)
        targets = [ik_service.Target(case.link, row_weights=case.axes)]
        result, cells = solved(contact, case.name, robot, targets, *mechanisms.arguments(case, wanted))
        gap, off = mechanisms.gaps(robot, result.joint_q), mechanisms.errors(case, robot, result.joint_q, wanted)
        wrong = int((result.success & ((gap > CLOSED) | (off > NEAR))).sum())
        false += wrong
        report.row(*cells, f"{gap[result.success].max(initial=0.0):.1e}", wrong)
    report.claim("false successes of mechanisms", false, "none", false == 0)


def show_contacts(contact: Contact) -> None:
    """Report targets whose answers have to be free of contact."""
    report, false = contact.report, 0
    report.section(
        "Contacts",
        f"Targets from {contact.count} random free configurations. A success is false where NumPy finds contact in "
        "float64, sphere by sphere.",
        *(*HEADS, "false"),
    )
    for name, file, scene in CONTACTS:
        robot, world, links = ik_service.load_robot(file), scene(), LINKS[file]
        free = robot.random_free_joint_q(np.random.default_rng(SEED), contact.count, world)
        given = in_float32(PoseProblems.of(robot, links, free)).given
        result, cells = solved(contact, name, robot, links, *given, world=world)
        wrong = in_contact(robot, result, world)
        false += wrong
        report.row(*cells, wrong)
    report.claim("successes in contact", false, "none", false == 0)


def show_company(contact: Contact) -> None:
    """Report whether ticks of a controller and solves of two solvers, each in a thread, are as alone."""
    seconds = 4.0 * contact.seconds
    contact.report.section(
        "In other threads",
        f"A controller's ticks and the solves of two solvers, each in a thread, for {seconds:g} s: bytes of each tick "
        "and each solve beside those of the same alone.",
    )
    robot = ik_service.load_robot("panda", collision="ignore")
    given = reachable(robot, LINKS["panda"], max(COUNTS))
    alone = contact.solver("panda").solve(*given.given).joint_q
    commands, found = ticks(robot, contact), list[str]()
    solvers = [contact.solver("panda") for _ in range(2)]
    done, ends = {"ticks": 0, 0: 0, 1: 0}, time.monotonic() + seconds

    def control() -> None:
        while time.monotonic() < ends:
            if ticks(robot, contact) != commands:
                found.append("other commands")
            done["ticks"] += TICKS

    def solve(place: int) -> None:
        rng, solver = np.random.default_rng(place), solvers[place]
        while time.monotonic() < ends:
            count = int(rng.choice(COUNTS))
            if solver.solve(*given.first(count).given).joint_q.tobytes() != alone[:count].tobytes():
                found.append(f"other answers of {count}")
            done[place] += 1

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
    what = f"differences in {done['ticks']} ticks and {done[0] + done[1]} solves"
    passed = not found and all(done.values())
    contact.report.claim(what, "; ".join(found[:3]) or "none", "none", passed)


def show_deadline(contact: Contact) -> None:
    """Report how late a solve ends that has a deadline, and whether the next one is as before."""
    report, count = contact.report, min(1000, contact.count)
    report.section(
        "Deadlines",
        f"{count} targets, all out of reach, with 4096 seeds, and the same with a deadline of a tenth of that time.",
    )
    robot = ik_service.load_robot("dual_panda", collision="ignore")
    positions, turns = reachable(robot, LINKS["dual_panda"], count).given
    given = 3.0 * positions, turns
    solver = ik_service.IKSolver(robot, LINKS["dual_panda"], device=str(contact.device), islands=False)
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


def ticks(robot: ik_service.RobotModel, contact: Contact) -> bytes:
    """Return the commands of a circle."""
    controller = panda_controller(robot, contact.device)
    return np.concatenate([controller.step(pose, dt=DT).joint_q.copy() for pose in circle(robot, TICKS)]).tobytes()


def show_threads(contact: Contact) -> None:
    """Report how many targets several solvers solve, each in a thread: copies of one beside the solves of others."""
    report, count, seconds = contact.report, 5 * contact.count, contact.seconds
    report.section(
        "Several threads",
        f"Batches of {count} Panda targets, NumPy arrays in and out, by as many solvers as threads: while the host "
        "copies for one, the device solves for another.",
        *("threads", "targets/s"),
    )
    given = reachable(ik_service.load_robot("panda", collision="ignore"), LINKS["panda"], count).given
    for number in THREADS:
        solvers = [contact.solver("panda") for _ in range(number)]
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


def show_first_use(contact: Contact) -> None:
    """Report how long the first solve of a process takes where nothing has been compiled before."""
    explanation = "The package imported, a robot loaded and a target solved, with no compiled kernels."
    contact.report.section("A first use", explanation)
    with tempfile.TemporaryDirectory() as folder:
        solved, seconds = fresh(FIRST_USE, str(contact.device), cache=folder, timeout_s=FIRST_USE_S)
    contact.report.claim("solved", f"{solved}, in {seconds:.1f} s", "True", solved)
