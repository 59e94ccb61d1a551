"""Draws the controller's runs: `python draw_control.py RUNS.npz TRACKING.svg EDGE.svg`.

Runs in an environment of its own, which has Matplotlib.
"""

import sys

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

mpl.use("Agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "control", "font.size": 10, "path.simplify": True})

OURS, PLAIN, TARGET = "#1f5fa8", "#7fb0dd", "#5a5a5a"
PEER_COLOURS = ("#b3452c", "#6f7f3a")
JOINT_COLOURS = [f"C{k}" for k in (0, 1, 2, 3, 4, 5, 9)]
MILLISECOND = 1e-3  # [s] a tick
EVERY = 5  # ticks between points of smooth curves
LEAST_ERROR = 1e-13  # [m] what is drawn of smaller errors
Arrays = dict[str, np.ndarray]


def seconds(values: np.ndarray) -> np.ndarray:
    """Return the time of every tick [s]."""
    return MILLISECOND * np.arange(1, len(values) + 1)


def draw_errors(axes: plt.Axes, runs: Arrays, path: str) -> None:
    """Draw errors of all controllers."""
    curves = [("ours, speeds and accelerations", "error", OURS, "-"), ("ours, speed limits", "error_plain", PLAIN, "-")]
    for who, colour in zip(runs["peers"], PEER_COLOURS, strict=False):
        curves.append((str(who), f"error_{who}", colour, "--"))
    for label, name, colour, style in curves:
        if f"{path}_{name}" in runs:
            error = np.maximum(runs[f"{path}_{name}"], LEAST_ERROR)[::EVERY]
            axes.semilogy(seconds(runs[f"{path}_{name}"])[::EVERY], 1e6 * error, color=colour, ls=style, label=label)
    axes.axhline(100.0, color=TARGET, lw=1.0, ls=":")
    axes.annotate("0.1 mm", (0.0, 100.0), xytext=(2, 3), textcoords="offset points", color=TARGET, fontsize=8)


def draw_speeds(
    axes: plt.Axes, speeds: np.ndarray, velocity: np.ndarray, *, every: int = 1, dots: bool = False
) -> None:
    """Draw the speeds of the joints over their limits; as dots where they may jump from tick to tick."""
    shares = speeds / velocity
    style = {"ls": "none", "marker": ",", "rasterized": True} if dots else {"lw": 1.2}
    for joint, colour in enumerate(JOINT_COLOURS):
        label = f"joint {joint + 1}"
        axes.plot(seconds(shares)[::every], shares[::every, joint], color=colour, label=label, **style)
    axes.set_ylim(-1.08, 1.08)
    for limit in (-1.0, 1.0):
        axes.axhline(limit, color=TARGET, lw=1.0, ls=":")


def draw_tracking(runs: Arrays, path: str) -> None:
    """Draw errors and joint speeds on paths that can be followed."""
    figure, grid = plt.subplots(2, 2, figsize=(9.6, 6.0), layout="constrained", sharex=True, sharey="row")
    for column, (name, title) in enumerate((("circle", "circle"), ("eight", "figure of eight"))):
        draw_errors(grid[0, column], runs, name)
        draw_speeds(grid[1, column], runs[f"{name}_speeds"], runs["velocity"], every=EVERY)
        grid[0, column].set_title(title)
        grid[1, column].set_xlabel("time [s]")
    grid[0, 0].set_ylim(1e-5, 1e3)
    grid[0, 0].set_ylabel("distance to the target [µm]")
    grid[1, 0].set_ylabel("joint speed over its limit")
    grid[0, 1].legend(frameon=False, ncols=2, fontsize=8, loc="lower center")
    grid[1, 1].legend(frameon=False, ncols=4, fontsize=8, loc="lower center")
    finish(figure, grid.flat, path)


def draw_edge(runs: Arrays, path: str) -> None:
    """Draw how the robot leaves the workspace and comes back."""
    peers = [str(who) for who in runs["peers"] if f"edge_speeds_{who}" in runs][:1]
    heights = [1.4, 1.0, 1.2, *(1.2 for _ in peers)]
    options = {"layout": "constrained", "sharex": True, "gridspec_kw": {"height_ratios": heights}}
    figure, rows = plt.subplots(len(heights), 1, figsize=(8.0, 1.9 * len(heights) + 0.8), **options)
    target, hand = runs["edge_target"], runs["edge_hand"]
    way = target[len(target) // 2] - target[0]
    for label, places, colour, style in (("target", target, TARGET, "--"), ("hand", hand, OURS, "-")):
        along = (places - target[0]) @ way / np.linalg.norm(way)
        rows[0].plot(seconds(along), along, color=colour, ls=style, label=label)
    rows[0].set_ylabel("way outwards [m]")
    rows[0].legend(frameon=False, fontsize=8)
    rows[1].semilogy(seconds(hand), runs["edge_sigma_min"], color=OURS)
    rows[1].set_ylabel("smallest\nsingular value")
    draw_speeds(rows[2], runs["edge_speeds"], runs["velocity"])
    rows[2].set_ylabel("joint speed over\nits limit: ours")
    rows[2].legend(frameon=False, ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 0.05))
    for row, who in zip(rows[3:], peers, strict=True):
        draw_speeds(row, runs[f"edge_speeds_{who}"], runs["velocity"], dots=True)
        row.set_ylabel(f"joint speed over\nits limit: {who},\na dot per tick")
    rows[-1].set_xlabel("time [s]")
    finish(figure, rows, path)


def finish(figure: plt.Figure, grid: object, path: str) -> None:
    """Write a figure; an SVG without a date, so that equal figures are equal files."""
    for axes in grid:
        axes.grid(True, alpha=0.3)
        axes.margins(x=0.01)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> None:
    """Read the runs and draw them."""
    with np.load(sys.argv[1]) as saved:
        runs = dict(saved)
    draw_tracking(runs, sys.argv[2])
    draw_edge(runs, sys.argv[3])


if __name__ == "__main__":
    main()
