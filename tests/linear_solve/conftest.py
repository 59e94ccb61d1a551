"""Islands of problems, set in arrays."""

import numpy as np

from ik_service.linear_solve.islands import island_lines


def discover_islands(structure, row_on, islands, *, join):
    """Sets the islands of problems with these enabled rows, [problems, rows]."""
    for name, values in island_lines(structure, np.asarray(row_on, bool), join=join).items():
        getattr(islands, name).assign(values)
