"""Normal equations of a batch and their damped solution."""

from ik_service.linear_solve.dense import damped_steps, normal_equations

__all__ = ["damped_steps", "normal_equations"]
