"""Draws time per iteration against the number of arms: `python draw_scaling.py TIMES.npz PLOT.svg`.

Runs in an environment of its own, which has Matplotlib.
"""

import sys

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

mpl.use("Agg")
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "islands", "font.size": 10})

COLOURS = {"islands": "#1f5fa8", "dense": "#b3452c"}
STYLES = {"iteration": "-", "gather, J'J, factor, solve": "--"}


def main() -> None:
    """Read the medians and draw them."""
    times = np.load(sys.argv[1])
    arms = times["arms"]
    figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
    for engine, colour in COLOURS.items():
        for stage, style in STYLES.items():
            label = f"{engine}: {'whole ' if stage == 'iteration' else ''}{stage}"
            axes.loglog(arms, 1e6 * times[f"{engine}/{stage}"], style, color=colour, marker="o", ms=4, label=label)
    first = 1e6 * times["islands/iteration"][0]
    axes.loglog(arms, first * arms, ":", color="grey", lw=1, label="linear")
    axes.set_xticks(arms, [str(count) for count in arms])
    axes.minorticks_off()
    axes.set_xlabel("arms of 7 DOFs on one base, one pose target each")
    axes.set_ylabel("CPU time per problem and iteration [µs]")
    axes.grid(True, alpha=0.3)
    axes.legend(frameon=False)
    metadata = {"Date": None} if sys.argv[2].endswith(".svg") else None
    figure.savefig(sys.argv[2], dpi=110, metadata=metadata)


if __name__ == "__main__":
    main()
