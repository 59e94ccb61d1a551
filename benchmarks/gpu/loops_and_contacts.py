"""Loops and contacts on a device: the answers beside those of the CPU, judged by the host in float64."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ik_service
from benchmarks.collision.free_answers import TABLE, cluttered, in_contact
from benchmarks.gpu.contact import SEED, Contact, in_float32
from benchmarks.islands import mechanisms
from benchmarks.problems.compared_robots import LINKS
from benchmarks.problems.mechanisms import MECHANISMS, Mechanism
from benchmarks.problems.pose_problems import PoseProblems
from ik_service.robots import World

CLOSED, NEAR = 1e-6, 1e-3  # [m]
CONTACTS: tuple[tuple[str, str, Callable[[], World | None]], ...] = (
    ("Panda, itself", "panda", lambda: None),
    ("Panda, itself and a table", "panda", lambda: World({"table": TABLE})),
    ("Panda, itself and 20 boxes", "panda", cluttered),
    ("two Pandas, themselves and each other", "dual_panda", lambda: None),
)
HEADS = "case", "µs", "targets/s", "success on the CPU", "on the device", "same seeds"


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
