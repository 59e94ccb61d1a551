"""Solves on tapes of Warp, with gradients."""

from ik_service.tape.solving import TapeAnswer, solve_on_tape

__all__ = ["TapeAnswer", "solve_on_tape"]
