"""Solves as functions of JAX, with gradients; needs JAX 0.5 or newer."""

from ik_service.extras import needs

with needs("jax", "ik_service.jax"):
    from ik_service.jax.solving import JaxAnswer, JaxSolver

__all__ = ["JaxAnswer", "JaxSolver"]
