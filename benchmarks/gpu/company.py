"""A GPU that several threads use at once, deadlines, and a first use with an empty cache of kernels."""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import ik_service
from benchmarks.gpu.contact import Contact, circle, panda_controller, reachable
from benchmarks.problems.compared_robots import LINKS
from benchmarks.run import fresh

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
    done, ends = {"ticks": 0, 0: 0, 1: 0}, time.monotonic() + seconds

    def control() -> None:
        while time.monotonic() < ends:
            if ticks(robot, contact) != commands:
                found.append("other commands")
            done["ticks"] += TICKS

    def solve(place: int) -> None:
        rng, solver = np.random.default_rng(place), contact.solver("panda")
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
