"""Rows of an objective, stated once as expressions, and the kernels made of them."""

from objectives.statement.rows import ROW_WEIGHTS, WEIGHT, RowGroup, RowInputs, StatedRows, state_rows

__all__ = ["ROW_WEIGHTS", "WEIGHT", "RowGroup", "RowInputs", "StatedRows", "state_rows"]
