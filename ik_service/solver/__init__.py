"""The staged engine: Levenberg-Marquardt over batches of problems, seeds and candidates, for any objective.

host targets --check--> Problems (one line per problem) --------------------------------+
Slots (attempts in flight) <--seeds-- collect_and_refill <--rank-- winners --judge--> IKResult
  |  accepted configurations: forward kinematics -> residual blocks -> Jacobian -> normal equations -> assess
  |  trials: damped steps -> forward kinematics -> residual blocks -> accept
  +--- the whole iteration recorded as a graph and replayed until no slot is running
"""

from ik_service.solver.options import SolverOptions
from ik_service.solver.result import IKResult
from ik_service.solver.solver import IKSolver
from ik_service.solver.status import IKStatus
from ik_service.solver.targets import Target

__all__ = ["IKResult", "IKSolver", "IKStatus", "SolverOptions", "Target"]
