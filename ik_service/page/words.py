"""Texts of the panel: status, errors and advice as HTML.

Names come from robot files, so all names are escaped in HTML.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ik_service.page.drawn_path import WAYPOINTS_MOST
from ik_service.page.geometry import Color
from ik_service.page.posed_robot import ORIENTATION_TOLERANCE, POSITION_TOLERANCE, PosedRobot
from ik_service.page.questions import Answer, Followed

GOOD: Color = (34, 160, 90)
FAR_COLOR: Color = (235, 150, 30)
HELD: Color = (214, 78, 40)
HIT: Color = (205, 40, 90)
BY_HAND: Color = (70, 130, 205)
ELSEWHERE = "Other starts may do better: tick 'May jump to another branch'."
UNPROVEN = "Nothing is proven: another configuration may meet the target."
NO_MODEL = "Collision is not checked: the robot has no collision model."
FIRST_S = 0.2  # a first solve that takes longer has loaded or compiled code [s]
COMPILING = "The first solve of a kind: its code may have to be compiled, which takes some seconds, once."
HEADINGS: Mapping[str, tuple[str, Color]] = {
    "converged": ("Reached", GOOD),
    "stalled": ("Not found", FAR_COLOR),
    "max_iterations": ("Not there yet", FAR_COLOR),
    "deadline": ("Out of time", FAR_COLOR),
    "blocked_by_limits": ("Held by joint limits", HELD),
    "blocked_by_collision": ("In contact", HIT),
    "unreachable": ("Proven: out of reach", FAR_COLOR),
    "loop_open": ("A loop stays open", HELD),
    "invalid": ("Not a number", HIT),
}
"""Heading and colour of each status; a status is `unreachable` by a proof alone."""
BY_CONTACT = 4
BLOCKED = "Proven: blocked"
PROOFS: Mapping[int, str] = {
    1: "Proof: farther away, or nearer, than the links can reach.",
    2: "Proof: no branch of the arm has a configuration within the joint limits.",
    3: "Proof: a search over the last joint leaves no configuration within the joint limits.",
    BY_CONTACT: "Proof: what is fixed to the target's link touches an object there, whatever the arm does.",
}
"""Reason of each kind of proof, by the column `proof`."""
BRANCH_PARTS: Mapping[str, int] = {"shoulder": 4, "elbow": 2, "wrist": 1}
"""Bits of a branch code. Their meaning depends on the axes of the robot, so they are letters, not sides."""
BRANCHES = (
    "Shoulder A or B: the wrist is on one side of axis 1 or on the other. "
    "Elbow, wrist A or B: bent one way or the other."
)
STATUS_LINES = 12
"""Height of the status in lines, besides its targets: controls below do not move, and a longer text is scrolled."""


def scheme_html(client_id: int) -> str:
    """Return a picture by whose address a browser tells whether its system is dark."""
    address = f"scheme/{client_id}"
    picture = f"<source media='(prefers-color-scheme: dark)' srcset='{address}/dark'><img alt='' src='{address}/light'>"
    return f"<picture style='display:none'>{picture}</picture>"


def heading(answer: Answer | None) -> tuple[str, Color]:
    """Return the heading and the colour of an answer; None is a pose made by hand."""
    if answer is None:
        return "Posed by hand", BY_HAND
    if answer.status[0] == "blocked_by_collision" and answer.proof[0] == BY_CONTACT:
        return BLOCKED, HIT
    return HEADINGS.get(answer.status[0], (answer.status[0], FAR_COLOR))


def status_html(
    posed: PosedRobot,
    trouble: str = "",
    *,
    keeps_branch: bool = False,
    is_first: bool = False,
    objects: Mapping[str, Any] | None = None,
) -> str:
    """Return the result of the last solve, or the reason of a missing answer (`trouble`).

    `keeps_branch` says that the solve had only one start, `is_first` that the question was the first of its kind.
    Obstacles are for a pose made by hand; None where contact is not checked.
    """
    answer = posed.answer
    words, color = ("No answer", BY_HAND) if trouble else heading(answer)
    if posed.is_on_path and not trouble:
        words = "On the path"
    lines = [trouble] if trouble else []
    if answer is not None and not trouble:
        lines = _lines(posed, answer, is_first=is_first)
        lines[1:1] = [] if answer.success[0] else [_proof_line(answer, keeps_branch=keeps_branch)]
    elif not trouble and objects is not None:
        closest, clearance = posed.closest(objects)
        lines = _closest_lines(closest, clearance)
        words, color = (f"{words}, in contact", HIT) if clearance < 0.0 else (words, color)
    if posed.branch >= 0 and not trouble:
        lines.insert(0, f"Branch: {branch_name(posed.branch)}.")
    if posed.robot.collision_model is None:
        lines.append(NO_MODEL)
    rows = "".join(_error_row(target.link, *posed.error[target.link]) for target in posed.asked)
    table = (
        "<table style='width:100%;margin:0.4em 0;font-variant-numeric:tabular-nums'><tr><th style='text-align:left'>"
        "target</th><th style='text-align:right'>position</th><th style='text-align:right'>rotation</th></tr>"
        f"{rows}</table>"
    )
    return _status(posed, _badge(words, color) + table, lines)


def branch_name(branch: int) -> str:
    """Return the name of a branch from 0 to 7."""
    return ", ".join(f"{part} {'B' if branch & bit else 'A'}" for part, bit in BRANCH_PARTS.items())


def ghost_name(place: int, branch: int) -> str:
    """Return the name of a ghost at a place from 0 on, with its branch; -1 for none."""
    return f"ghost {place + 1}" if branch < 0 else f"ghost {place + 1}: {branch_name(branch)}"


def solutions_html(count: int, *, is_complete: bool, is_checked: bool) -> str:
    """Return how many other solutions were found, and whether they are all; `is_checked` says that contact counts."""
    free, turns = " free of contact" if is_checked else "", ", apart from whole turns of joints"
    if is_complete:
        text = f"These are all other solutions{free}{turns}." if count else f"There is no other solution{free}{turns}."
    else:
        text = "Perhaps there are more." if count else "No other was found; perhaps there are some."
    return block_html(text)


def waiting_html(posed: PosedRobot, seconds: float, lines: Sequence[str]) -> str:
    """Return the status of pending answers, with reasons for the wait; an earlier answer is not shown."""
    return _status(posed, _badge(f"Solving ... {int(seconds)} s" if seconds >= 1.0 else "Solving ...", BY_HAND), lines)


def _status(posed: PosedRobot, head: str, lines: Sequence[str]) -> str:
    said = "".join(_paragraph(line) for line in lines if line)
    height = f"line-height:1.35;height:{STATUS_LINES + len(posed.asked)}lh;overflow-y:auto"
    return block_html(head + said, style=height, role="status")


def block_html(content: str, *, style: str = "", role: str = "") -> str:
    """Return HTML as a block of the panel; a block with a role can be scrolled with keys."""
    has_role = f" role='{role}' tabindex='0'" if role else ""
    return f"<div{has_role} style='padding:0.2em 0.8em;font-size:0.85em;{style}'>{content}</div>"


def random_html(answer: Answer) -> str:
    """Return how a batch of random reachable targets was solved."""
    count, solved = len(answer.success), int(answer.success.sum())
    others = Counter(word for word in answer.status if word != "converged")
    rest = "; ".join(f"{HEADINGS.get(word, (word, FAR_COLOR))[0].lower()}: {k}" for word, k in others.most_common())
    badge = _badge(f"{solved} of {count} reached", FAR_COLOR if rest else GOOD)
    took = f"{answer.solve_ms:.1f} ms, {1e3 * answer.solve_ms / count:.1f} µs each"
    return block_html(badge + _paragraph(f"{100.0 * solved / count:.1f} % in {took}. {rest}"))


def path_html(waypoints: int, followed: Followed | None = None) -> str:
    """Return the text about a drawn path."""
    if followed is None:
        count = f"{waypoints} waypoint{'' if waypoints == 1 else 's'} recorded"
        full = ", as many as there may be" if waypoints == WAYPOINTS_MOST else ""
        return block_html(f"{count}{full}.") if waypoints else ""
    met, fast = int(followed.success.sum()), int(followed.is_fast.sum())
    badge = _badge(f"{met} of {waypoints} waypoints met", GOOD if met == waypoints else FAR_COLOR)
    faster = f" Joints would go too fast to {fast}: drag slower." if fast else ""
    took = f"{followed.solve_ms:.1f} ms" if followed.solve_ms < 1e3 else f"{1e-3 * followed.solve_ms:.1f} s"
    moves = f"a joint moves by {followed.joint_change:.2f} rad or m at most from one to the next.{faster}"
    return block_html(badge + _paragraph(f"{took}; {moves}"))


def _lines(posed: PosedRobot, answer: Answer, *, is_first: bool) -> list[str]:
    """Return sentences about an answer; the advice comes first."""
    lines = [] if answer.success[0] else [answer.advice]
    held = [name for name, is_held in zip(posed.robot.dof_names, answer.active_limits[0], strict=True) if is_held]
    if held:
        lines.append(f"At a limit: {', '.join(held)}.")
    lines += _closest_lines(answer.closest, float(answer.clearance[0]))
    if is_first and answer.total_ms > 1e3 * FIRST_S:
        return [*lines, f"{1e-3 * answer.total_ms:.1f} s in all, most of it to load or compile code, once."]
    iterations = int(answer.iterations[0])
    lines.append(
        f"{answer.solve_ms:.2f} ms to solve, {answer.total_ms:.1f} ms in all, {iterations} "
        f"iteration{'' if iterations == 1 else 's'}, {answer.ran_on}."
    )
    return lines


def _proof_line(answer: Answer, *, keeps_branch: bool) -> str:
    """Return the proof of a failure, or advice without a proof."""
    return PROOFS.get(int(answer.proof[0]), ELSEWHERE if keeps_branch else UNPROVEN)


def _closest_lines(closest: tuple[str, str] | None, clearance: float) -> list[str]:
    if closest is None or not np.isfinite(clearance):
        return []
    apart = (
        f"overlap by {-1e3 * clearance:.1f} mm" if clearance < 0.0 else f"are closest, {1e3 * clearance:.1f} mm apart"
    )
    return [f"{closest[0]} and {closest[1]} {apart}."]


def _error_row(link: str, position: float, orientation: float) -> str:
    cells = [_cell(1e3 * position, "mm", position > POSITION_TOLERANCE)]
    cells.append(_cell(float(np.degrees(orientation)), "°", orientation > ORIENTATION_TOLERANCE))
    return f"<tr><td>{escape(link)}</td>{''.join(cells)}</tr>"


def _cell(value: float, unit: str, is_missed: bool) -> str:
    text = "free" if np.isnan(value) else f"{value:.3f} {unit}"
    weight = "bold" if is_missed else "normal"
    return f"<td style='text-align:right;font-weight:{weight}'>{text}</td>"


def _paragraph(text: str) -> str:
    return f"<p style='margin:0.35em 0'>{escape(text)}</p>"


def _badge(words: str, color: Color) -> str:
    background = ",".join(str(int(0.78 * channel)) for channel in color)  # white on it is readable
    style = f"background:rgb({background});color:#fff;border-radius:0.4em;padding:0.15em 0.6em;font-weight:600"
    return f"<span style='{style}'>{escape(words)}</span>"
