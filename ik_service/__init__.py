"""Batched inverse kinematics on NVIDIA Warp, and the HTTP service of this solver.

Names are loaded on first use, so the command line shows its help and version without Warp.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ik_service.errors import EngineError, KernelCacheError, RobotFileError
    from ik_service.ik_solver import IKSolver
    from ik_service.motion.clip_result import ClipResult
    from ik_service.motion.result import PathResult
    from ik_service.poses import Poses
    from ik_service.robots import RobotModel, builtin_robot_names, load_robot
    from ik_service.solver.candidates import CandidateResult
    from ik_service.solver.collision_checker import CollisionChecker
    from ik_service.solver.given.options import SolverOptions
    from ik_service.solver.given.targets import Target
    from ik_service.solver.lm.status import IKStatus
    from ik_service.solver.result import IKResult

__version__ = "0.1.0"

__all__ = [
    "CandidateResult",
    "ClipResult",
    "CollisionChecker",
    "EngineError",
    "IKResult",
    "IKSolver",
    "IKStatus",
    "KernelCacheError",
    "PathResult",
    "Poses",
    "RobotFileError",
    "RobotModel",
    "SolverOptions",
    "Target",
    "__version__",
    "builtin_robot_names",
    "load_robot",
]

_HOMES = {
    "ik_service.errors": ("EngineError", "KernelCacheError", "RobotFileError"),
    "ik_service.robots": ("RobotModel", "builtin_robot_names", "load_robot"),
    "ik_service.ik_solver": ("IKSolver",),
    "ik_service.motion.clip_result": ("ClipResult",),
    "ik_service.motion.result": ("PathResult",),
    "ik_service.poses": ("Poses",),
    "ik_service.solver.candidates": ("CandidateResult",),
    "ik_service.solver.collision_checker": ("CollisionChecker",),
    "ik_service.solver.given.options": ("SolverOptions",),
    "ik_service.solver.given.targets": ("Target",),
    "ik_service.solver.result": ("IKResult",),
    "ik_service.solver.lm.status": ("IKStatus",),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
