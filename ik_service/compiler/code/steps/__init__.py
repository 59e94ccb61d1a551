"""The step of an iteration: in which space it is solved for, and its code."""
