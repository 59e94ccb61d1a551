"""Kinds of rows."""

from enum import IntEnum

import warp as wp


class RowKind(IntEnum):
    """What a row of the residual vector is for; `kind_of` gives each objective its kind."""

    TARGET = 0
    """A row of a pose target: it has to come within its tolerance."""
    SOFT = 1
    """A row of any other objective: its cost is lowered as far as the targets allow."""

    CONSTRAINT = 2
    """A row of a loop that the robot closes: all others yield to it, and it has to come within its tolerance."""


HAVE_TO_BE_MET = (RowKind.TARGET, RowKind.CONSTRAINT)
"""Kinds of rows that have to come within their tolerances; rows of all others are lowered beside them."""
TARGET_ROW = wp.constant(int(RowKind.TARGET))
CONSTRAINT_ROW = wp.constant(int(RowKind.CONSTRAINT))
