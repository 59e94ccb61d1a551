"""Batched inverse kinematics on NVIDIA Warp, and a service around it."""

from ik_service.errors import EngineError, RobotFileError
from ik_service.robots import RobotModel, builtin_robot_names, load_robot
from ik_service.solver import IKResult, IKSolver, IKStatus, SolverOptions, Target

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "IKResult",
    "IKSolver",
    "IKStatus",
    "RobotFileError",
    "RobotModel",
    "SolverOptions",
    "Target",
    "__version__",
    "builtin_robot_names",
    "load_robot",
]
