"""Texts of the panel: status, errors and advice as HTML.

Names come from robot files, so all names are escaped in HTML.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.motion.clip_result import ClipResult
from ik_service.page.drawn_path import WAYPOINTS_MOST, DrawnPath
from ik_service.page.geometry import Color
from ik_service.page.posed_robot import TOLERANCES, PosedRobot
from ik_service.page.questions import Answer

GOOD: Color = (34, 160, 90)
FAR_COLOR: Color = (235, 150, 30)
HELD: Color = (214, 78, 40)
HIT: Color = (205, 40, 90)
BY_HAND: Color = (70, 130, 205)
ELSEWHERE = "Other starts may do better: tick 'May jump to another branch'."
UNPROVEN = "Nothing is proven: another configuration may meet the target."
NO_MODEL = "Collision is not checked: the robot has no collision model."
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
UNKNOWN = "Not reached", FAR_COLOR
BY_CONTACT = 4
BLOCKED = "Proven: blocked"
PROOFS: Mapping[int, str] = {
    1: "Proof: farther away, or nearer, than the links can reach.",
    2: "Proof: no branch of the arm has a configuration within the joint limits.",
    3: "Proof: a search over the last joint leaves no configuration within the joint limits.",
    BY_CONTACT: "Proof: what is fixed to the target's link touches an object there, whatever the arm does.",
}
"""Reason of each kind of proof, by the column `proof`."""
FATES: Sequence[tuple[str, Color]] = (
    ("proven out of reach", (190, 105, 15)),
    ("not reached", FAR_COLOR),
    ("proven to be blocked", HIT),
    ("blocked", (225, 110, 150)),
    ("not needed", (140, 148, 160)),
    ("reachable", BY_HAND),
    ("chosen", GOOD),
)
"""Name and color of each fate of a direction, in the order of the solver's, and of the chosen one."""
BRANCH_PARTS: Mapping[str, int] = {"shoulder": 4, "elbow": 2, "wrist": 1}
"""Bits of a branch code. Their meaning depends on the axes of the robot, so they are letters, not sides."""
BRANCHES = (
    "Shoulder A or B: the wrist is on one side of axis 1 or on the other. "
    "Elbow, wrist A or B: bent one way or the other."
)
STYLE = (files("ik_service.page") / "page.css").read_text()


def page_html(client_id: int) -> str:
    """Return the style of the panel, and a picture by whose address a browser tells whether its system is dark."""
    address = f"scheme/{client_id}"
    picture = f"<source media='(prefers-color-scheme: dark)' srcset='{address}/dark'><img alt='' src='{address}/light'>"
    return f"<style>{STYLE}</style><picture style='display:none'>{picture}</picture>"


def heading(posed: PosedRobot, trouble: str = "", objects: Mapping[str, Any] | None = None) -> tuple[str, Color]:
    """Return the heading and the colour of the status; arguments as in `status_html`."""
    answer = posed.answer
    if trouble:
        return "No answer", BY_HAND
    if posed.waypoint_met is not None:
        return "On the path", GOOD if posed.waypoint_met else FAR_COLOR
    if answer is None:
        is_hit = objects is not None and posed.closest(objects)[1] < 0.0
        return ("Posed by hand, in contact", HIT) if is_hit else ("Posed by hand", BY_HAND)
    if answer.status[0] == "blocked_by_collision" and answer.proof[0] == BY_CONTACT:
        return BLOCKED, HIT
    return HEADINGS.get(answer.status[0], UNKNOWN)


def status_html(
    posed: PosedRobot,
    trouble: str = "",
    *,
    keeps_branch: bool = False,
    objects: Mapping[str, Any] | None = None,
) -> str:
    """Return the result of the last solve, or the reason of a missing answer (`trouble`).

    `keeps_branch` says that the solve had only one start. Obstacles are for a pose made by hand; None where contact is
    not checked.
    """
    lines = [trouble] if trouble else _lines(posed, keeps_branch=keeps_branch, objects=objects)
    if posed.robot.collision_model is None:
        lines.append(NO_MODEL)
    rows = "".join(_error_row(target.link, *posed.error[target.link]) for target in posed.asked)
    table = f"<table><tr><th>target</th><th>position</th><th>rotation</th></tr>{rows}</table>"
    return _status(posed, *heading(posed, trouble, objects), table, lines)


def branch_name(branch: int) -> str:
    """Return the name of a branch from 0 to 7."""
    return ", ".join(f"{part} {'B' if branch & bit else 'A'}" for part, bit in BRANCH_PARTS.items())


def ghost_name(place: int, branch: int) -> str:
    """Return the name of a ghost at a place from 0 on, with its branch; -1 for none."""
    return f"ghost {place + 1}" if branch < 0 else f"ghost {place + 1}: {branch_name(branch)}"


def solutions_html(count: int, *, is_complete: bool, is_checked: bool) -> str:
    """Return how many other solutions were found, and whether they are all; `is_checked` says that contact counts."""
    if not is_complete:
        return block_html("Perhaps there are more." if count else "No other was found; perhaps there are some.")
    found = "These are all other solutions" if count else "There is no other solution"
    return block_html(f"{found}{' free of contact' if is_checked else ''}, apart from whole turns of joints.")


def choice_html(fates: NDArray[Any]) -> str:
    """Return how many directions had each fate, of `FATES`."""
    counts = np.bincount(fates, minlength=len(FATES)).tolist()
    told = [_badge(f"{count} {word}", color) for (word, color), count in zip(FATES, counts, strict=True) if count]
    return block_html(f"{len(fates)} directions tried: {' '.join(reversed(told))}")


def waiting_html(posed: PosedRobot, seconds: float, reason: str = "") -> str:
    """Return the status of pending answers, with a reason for the wait; an earlier answer is not shown."""
    return _status(posed, f"Solving ... {int(seconds)} s" if seconds >= 1.0 else "Solving ...", BY_HAND, "", [reason])


def _status(posed: PosedRobot, title: str, color: Color, table: str, lines: Sequence[str]) -> str:
    """Return a status of one height, so that controls below do not move; a sheet on a phone shows its heading."""
    said = "".join(_paragraph(line) for line in lines if line)
    sheet = f"<style>:root{{--status:'{title}';--status-color:{_dark(color)}}}</style>"
    text = f"{sheet}{_badge(title, color)}{table}{said}"
    status = f"<div role='status' tabindex='0' class='ik ik-status' style='--targets:{len(posed.asked)}'>{text}</div>"
    return f"<main><h1 class='ik-name'>{escape(posed.name)}</h1>{status}</main>"


def block_html(content: str) -> str:
    """Return HTML as a block of the panel."""
    return f"<div class='ik'>{content}</div>"


def random_html(answer: Answer) -> str:
    """Return how a batch of random reachable targets was solved."""
    count, solved = len(answer.success), int(answer.success.sum())
    badge = _badge(f"{solved} of {count} reached", FAR_COLOR if solved < count else GOOD)
    took = f"{answer.solve_ms:.1f} ms, {1e3 * answer.solve_ms / count:.1f} µs each"
    return block_html(badge + _paragraph(f"{100.0 * solved / count:.1f} % in {took}."))


def path_html(path: DrawnPath) -> str:
    """Return the text about a drawn path, followed or fitted as a clip."""
    found, count = path.followed, len(path)
    if found is None:
        return block_html(f"{count} of at most {WAYPOINTS_MOST} waypoints recorded.") if count else ""
    met, fast = int(path.met.sum()), int(found.over_velocity[1:].any(axis=1).sum())
    badge = _badge(f"{met} of {count} waypoints met", GOOD if met == count else FAR_COLOR)
    if isinstance(found, ClipResult):
        lines = [f"{line[0].upper()}{line[1:]}." for line in found.explain().splitlines()[1:] if "cost" not in line]
    else:
        most = float(found.joint_change[1:].max(initial=0.0))
        lines = [f"From one to the next a joint moves by {most:.2f} rad or m at most."]
        lines += [f"Joints would go too fast to {fast}: drag slower, or fit a clip."] if fast else []
    return block_html(badge + "".join(map(_paragraph, lines)))


def _lines(posed: PosedRobot, *, keeps_branch: bool, objects: Mapping[str, Any] | None) -> list[str]:
    """Return sentences about the configuration; the advice of an answer comes first."""
    answer, lines = posed.answer, list[str]()
    if answer is None:
        return lines if objects is None else _closest_lines(*posed.closest(objects))
    if not answer.success[0]:
        lines += [answer.advice, PROOFS.get(int(answer.proof[0]), ELSEWHERE if keeps_branch else UNPROVEN)]
    held = [posed.robot.dof_names[dof] for dof in np.flatnonzero(posed.held_dofs())]
    if held:
        lines.append(f"At a limit: {', '.join(held)}.")
    count = int(answer.iterations[0])
    iterations = f"{count} iteration{'' if count == 1 else 's'}"
    took = f"{answer.solve_ms:.2f} ms to solve, {iterations}, {answer.ran_on}."
    return [*lines, *_closest_lines(answer.closest, float(answer.clearance[0])), took]


def _closest_lines(closest: tuple[str, str] | None, clearance: float) -> list[str]:
    if closest is None or not np.isfinite(clearance):
        return []
    overlap, apart = f"overlap by {-1e3 * clearance:.1f} mm", f"are closest, {1e3 * clearance:.1f} mm apart"
    return [f"{closest[0]} and {closest[1]} {overlap if clearance < 0.0 else apart}."]


def _error_row(link: str, position: float, orientation: float) -> str:
    way = _cell(1e3 * position, "mm", position > TOLERANCES[0])
    turn = _cell(float(np.degrees(orientation)), "°", orientation > TOLERANCES[1])
    return f"<tr><td>{escape(link)}</td>{way}{turn}</tr>"


def _cell(value: float, unit: str, is_missed: bool) -> str:
    text = "free" if np.isnan(value) else f"{value:.3f} {unit}"
    return f"<td>{f'<b>{text}</b>' if is_missed else text}</td>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _badge(words: str, color: Color) -> str:
    return f"<span class='ik-badge' style='background:{_dark(color)}'>{escape(words)}</span>"


def _dark(color: Color) -> str:
    """Return a colour on which white can be read, for CSS."""
    return f"rgb({','.join(str(int(0.68 * channel)) for channel in color)})"
