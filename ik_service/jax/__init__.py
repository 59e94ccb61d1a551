"""Solves as functions of JAX, with gradients; needs JAX 0.5 or newer."""

from ik_service.extras import how_to_install

try:
    from ik_service.jax.solving import JaxAnswer, JaxSolver
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ModuleNotFoundError(f"ik_service.jax needs JAX. {how_to_install('jax')}", name="jax") from None

__all__ = ["JaxAnswer", "JaxSolver"]
