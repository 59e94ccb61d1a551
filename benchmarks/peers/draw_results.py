"""Draws the results: `python draw_results.py CURVES.npz BATCHES.svg SEEDS.svg`.

Runs in an environment of its own, which has Matplotlib.
"""

import sys

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

mpl.use("Agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "peers", "font.size": 10})

OURS, THEIRS = "#1f5fa8", "#b3452c"
LEVEL_COLOURS = (THEIRS, "#6f7f3a", "#8a6fa8", "#5a5a5a")
TIME_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100)  # [µs]
LEAST_FAILURE = 1e-5  # where a share of 0 is drawn


def draw_batches(curves: dict[str, np.ndarray], path: str) -> None:
    """Draw the time per target against the batch size, and the levels of other solvers."""
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    axes.loglog(curves["batches"], curves["batch_times"], color=OURS, marker="o", ms=5)
    last = curves["batches"][-1], curves["batch_times"][-1]
    axes.annotate("ours", last, xytext=(0, 7), textcoords="offset points", color=OURS, ha="right")
    levels = zip(curves["level_names"], curves["level_times"], LEVEL_COLOURS, strict=False)
    for name, level, colour in levels:
        axes.axhline(level, color=colour, ls="--", lw=1.2)
        axes.annotate(str(name), (last[0], level), xytext=(0, 3), textcoords="offset points", color=colour, ha="right")
    axes.set_ylim(top=2.0 * max([*curves["level_times"], *curves["batch_times"]]))
    axes.set_xticks(curves["batches"], [f"{batch:g}" for batch in curves["batches"]])
    axes.minorticks_off()
    axes.set_xlabel("targets per call")
    axes.set_ylabel("time per target on one core [µs]")
    axes.grid(True, alpha=0.3)
    save(figure, path)


def draw_seeds(curves: dict[str, np.ndarray], path: str) -> None:
    """Draw the share of unsolved targets against the time spent."""
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    for label, who, colour in (("ours", "our", OURS), ("Pinocchio LM, C++", "their", THEIRS)):
        times, failures = curves[f"{who}_times"], 1.0 - curves[f"{who}_success"]
        if not len(times):
            continue
        shown = np.maximum(failures, LEAST_FAILURE)
        axes.loglog(times, shown, color=colour, marker="o", ms=5, label=label)
        for failure in np.unique(shown):  # points that lie on each other share a label
            same = shown == failure
            seeds = ", ".join(str(count) for count in curves["seeds"][same])
            at = float(times[same].max()), failure
            axes.annotate(seeds, at, xytext=(6, 4), textcoords="offset points", fontsize=8, color=colour)
    shares = [10.0**power for power in range(-5, 1)]
    axes.set_yticks(shares, ["0", *(f"{100 * share:g} %" for share in shares[1:])])
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in TIME_TICKS if low < tick < high])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlabel("CPU time per target [µs]; beside each point the largest number of seeds")
    axes.set_ylabel("targets not solved at 1 mm, 0.01 rad")
    axes.grid(True, alpha=0.3)
    axes.legend(frameon=False)
    save(figure, path)


def save(figure: plt.Figure, path: str) -> None:
    """Write a figure; an SVG without a date, so that equal figures are equal files."""
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> None:
    """Read the curves and draw them."""
    with np.load(sys.argv[1]) as saved:
        curves = dict(saved)
    draw_batches(curves, sys.argv[2])
    draw_seeds(curves, sys.argv[3])


if __name__ == "__main__":
    main()
