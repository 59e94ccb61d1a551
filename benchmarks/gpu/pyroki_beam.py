"""PyRoki on the same targets: many seeds for a few steps, the best of them for some more, as its own benchmark does.

Needs the package `pyroki` (JAX) beside ours; JAX takes the GPU that it finds.
"""

import os
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEEDS, STEPS = 64, 6  # coarse
KEPT, MORE_STEPS = 4, 10  # refined
WEIGHTS = (10.0, 5.0, 50.0)  # of position, orientation and limits
DAMPING = 10.0  # of the first step


def spread_evenly(count: int, width: int) -> NDArray[np.float64]:
    """Points that fill the unit cube evenly [count, width]: multiples of powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(64):  # x^(width + 1) = x + 1
        ratio = (1.0 + ratio) ** (1.0 / (width + 1))
    return np.arange(count)[:, None] * ratio ** -np.arange(1.0, width + 1) % 1.0


class PyrokiBeam:
    """PyRoki for one link of a robot; an ImportError where PyRoki is not installed."""

    def __init__(self, urdf: Path, link: str) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # Warp needs memory too
        import jax
        import pyroki
        import yourdfpy

        package = metadata.packages_distributions()["pyroki"][0]
        self.who = f"{package} {metadata.version(package)}, JAX {jax.__version__} on {jax.devices()[0].platform}"
        self._robot = pyroki.Robot.from_urdf(yourdfpy.URDF.load(str(urdf), load_meshes=False))
        self._link = self._robot.links.names.index(link)
        self._solve = jax.jit(jax.vmap(self._solve_one))

    def _solve_one(self, position: Any, wxyz: Any) -> Any:
        import jax
        import jaxls
        from jax import numpy as jnp

        joints = self._robot.joints
        span = joints.upper_limits - joints.lower_limits
        seeds = joints.lower_limits + jnp.asarray(spread_evenly(SEEDS, joints.num_actuated_joints)) * span

        def descend(q: Any, damping: Any, steps: int) -> Any:
            variable = self._robot.joint_var_cls(0)
            problem = jaxls.LeastSquaresProblem(self._costs(variable, position, wxyz), [variable]).analyze()
            values, summary = problem.solve(
                jaxls.VarValues.make([variable.with_value(q)]),
                verbose=False,
                linear_solver="dense_cholesky",
                termination=jaxls.TerminationConfig(max_iterations=steps, early_termination=False),
                trust_region=jaxls.TrustRegionConfig(lambda_initial=damping),
                return_summary=True,
            )
            return values[variable], summary.cost_history[steps - 1], summary.lambda_history[steps - 1]

        coarse, cost, damping = jax.vmap(lambda q: descend(q, DAMPING, STEPS))(seeds)
        best = jnp.argsort(cost)[:KEPT]
        fine, cost, _ = jax.vmap(lambda q, d: descend(q, d, MORE_STEPS))(coarse[best], damping[best])
        return fine[jnp.argmin(cost)]

    def _costs(self, variable: Any, position: Any, wxyz: Any) -> list[Any]:
        import jaxlie
        import pyroki
        from jax import numpy as jnp

        pose = jaxlie.SE3.from_rotation_and_translation(jaxlie.SO3(wxyz), position)
        target = pyroki.costs.pose_cost_analytic_jac(
            self._robot, variable, pose, jnp.array(self._link), pos_weight=WEIGHTS[0], ori_weight=WEIGHTS[1]
        )
        return [target, pyroki.costs.limit_cost(self._robot, variable, weight=WEIGHTS[2])]

    def solve(
        self, positions: NDArray[np.float64], orientations_xyzw: NDArray[np.float64], repeats: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the answers [n, joints] to targets [n, 3] and [n, 4], NumPy arrays in and out, and times of runs [s].

        Times are wall time; a run before them compiles.
        """
        given = positions.astype(np.float32), np.roll(orientations_xyzw, 1, axis=1).astype(np.float32)
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            joint_q = np.asarray(self._solve(*given))
            times.append(time.perf_counter() - start)
        return joint_q.astype(np.float64), np.array(times[1:])
