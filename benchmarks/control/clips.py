"""Clips of a humanoid fitted within limits: frames a second, cost beside frames alone, held feet, limits kept."""

import numpy as np

from benchmarks.problems.clips import DT, LINKS, motion
from benchmarks.report import Report
from benchmarks.run import benchmark, timed
from ik_service import IKSolver, Target, load_robot

SPEED = 0.5  # of the speeds of the model
ACCELERATION = 60.0  # [rad/s^2]
RATE = 50_000.0  # frames a second
COST = {"walk": 1.02, "turn": 1.25, "sit": 1.25}  # most, beside the cost of frames alone
DRIFT_MM = 1.0
ROUNDING = 1.0 + 1e-9


def show(report: Report, frames: int, repeats: int) -> None:
    """Fit each motion, and judge its limits apart from the solver."""
    robot = load_robot("humanoid", collision="ignore")
    weights = motion("walk", 1).row_weights
    solver = IKSolver(
        robot, [Target(link, row_weights=own) for link, own in zip(LINKS, weights, strict=True)], device="cpu"
    )
    speeds = SPEED * np.asarray(robot.joint_velocity_limit)
    report.table(
        *("motion", "limits", "us a frame", "cost / alone", "alone over speeds", "over limits"),
        *("feet held: drift [mm]", "unsettled"),
    )
    for kind in COST:
        own = motion(kind, frames)
        given = own.positions, own.orientations_xyzw, DT
        free = solver.fit_clip(*given, velocity=1e6, smoothness=0.0)
        alone = free.cost.mean()
        too_fast = (np.abs(np.diff(free.joint_q[:, 7:], axis=0)) > speeds[6:] * DT).any(axis=1).mean()
        for name, limits in (("speed", {}), ("speed, acceleration", {"acceleration": ACCELERATION})):
            clip, times = timed(lambda g=given, k=limits: solver.fit_clip(*g, velocity=speeds, **k), repeats)
            held = solver.fit_clip(*given, velocity=speeds, held=own.planted, **limits)
            joints = clip.joint_q[:, 7:]
            step, bend = np.diff(joints, axis=0), np.diff(joints, n=2, axis=0)
            over = (np.abs(step) > speeds[6:] * DT * ROUNDING).any(axis=1).sum()
            over += (np.abs(bend) > limits.get("acceleration", np.inf) * DT**2 * ROUNDING).any(axis=1).sum()
            ratio, drift = clip.cost.mean() / alone, 1e3 * np.nanmax(held.held_drift)
            unsettled = f"{np.mean([word == 'unsettled' for word in clip.status_names]):.1%}"
            report.row(kind, name, times, f"{ratio:.3f}", f"{too_fast:.0%}", over, f"{drift:.2f}", unsettled)
            report.claim(f"{kind}, {name}: frames beyond a limit", str(over), "0", over == 0)
            if name == "speed":
                rate = 1e6 / times.median
                report.claim(f"{kind}: frames a second", f"{rate:.0f}", f"{RATE:.0f}", rate >= RATE)
                report.claim(f"{kind}: cost beside frames alone", f"{ratio:.3f}", f"{COST[kind]}", ratio <= COST[kind])
                report.claim(f"{kind}: drift of held feet [mm]", f"{drift:.2f}", f"{DRIFT_MM}", drift <= DRIFT_MM)


if __name__ == "__main__":
    benchmark(
        "Clips of a humanoid",
        show,
        f"Seven targets of a built-in humanoid at 30 Hz, with noise of 5 mm; {SPEED:.0%} of its speeds.",
        sizes={"frames": (600, 1800), "repeats": (2, 5)},
    )
