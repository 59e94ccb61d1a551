"""Draws the results: `python draw_results.py CURVES.npz BATCHES.svg SEEDS.svg`, where Matplotlib is."""

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


def draw_batches(axes: plt.Axes, curves: dict[str, np.ndarray]) -> None:
    """Draw the time per target against the batch size, and the levels of other solvers."""
    axes.loglog(curves["batches"], curves["batch_times"], color=OURS, marker="o", ms=5)
    levels = zip(curves["level_names"], curves["level_times"], LEVEL_COLOURS, strict=False)
    lines = [("ours", curves["batch_times"][-1], OURS), *levels]
    for name, level, colour in lines:
        if name != "ours":
            axes.axhline(level, color=colour, ls="--", lw=1.2)
        place = {"xytext": (0, 4), "textcoords": "offset points", "ha": "right"}
        axes.annotate(str(name), (curves["batches"][-1], level), color=colour, **place)
    axes.set_ylim(top=2.0 * max([*curves["level_times"], *curves["batch_times"]]))
    axes.set_xticks(curves["batches"], [f"{batch:g}" for batch in curves["batches"]])
    axes.set(xlabel="targets per call", ylabel="time per target on one core [µs]")


def draw_seeds(axes: plt.Axes, curves: dict[str, np.ndarray]) -> None:
    """Draw the share of unsolved targets against the time spent."""
    for label, who, colour in (("ours", "our", OURS), ("Pinocchio LM, C++", "their", THEIRS)):
        times, shown = curves[f"{who}_t"], np.maximum(curves[f"{who}_f"], LEAST_FAILURE)
        axes.loglog(times, shown, color=colour, marker="o", ms=5, label=label)
        for failure in np.unique(shown):  # points that lie on each other share a label
            seeds = ", ".join(str(count) for count in curves["seeds"][: len(times)][shown == failure])
            at = float(times[shown == failure].max()), failure
            axes.annotate(seeds, at, xytext=(6, 4), textcoords="offset points", fontsize=8, color=colour)
    shares = [10.0**power for power in range(-5, 1)]
    axes.set_yticks(shares, ["0", *(f"{100 * share:g} %" for share in shares[1:])])
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in TIME_TICKS if low < tick < high])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("CPU time per target [µs]; beside each point the largest number of seeds")
    axes.set_ylabel("targets not solved at 1 mm, 0.01 rad")
    axes.legend(frameon=False)


with np.load(sys.argv[1]) as saved:
    curves = dict(saved)
for draw, path in zip((draw_batches, draw_seeds), sys.argv[2:], strict=True):
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    draw(axes, curves)
    axes.minorticks_off()
    axes.grid(True, alpha=0.3)
    figure.savefig(path, metadata={"Date": None})  # equal figures are equal files
