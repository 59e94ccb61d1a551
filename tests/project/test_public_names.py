"""The public names: each list is pinned, so that a name appears or goes only on purpose."""

import operator

import pytest

import ik_service
import ik_service.client
import ik_service.control
import ik_service.integrations.bulk
import objectives

IK_SERVICE = """
CandidateResult ClipResult CollisionChecker EngineError IKResult IKSolver IKStatus KernelCacheError PathResult Poses
RobotFileError RobotModel SolverOptions Target __version__ builtin_robot_names load_robot
"""
OBJECTIVES = """
IKError IKJacobianType IKJointType IKModel IKObjective IKObjectiveAxisAlign IKObjectiveCenterOfMass
IKObjectiveCoupling IKObjectiveDamping IKObjectiveJointCentering IKObjectiveJointLimit IKObjectiveLine
IKObjectiveLookAt IKObjectiveLoop IKObjectiveManipulability IKObjectiveNearPose IKObjectivePlane IKObjectivePose
IKObjectivePosition IKObjectivePosture IKObjectiveRelativePose IKObjectiveRotation InputError ObjectiveError
UnknownNameError check
"""
CLIENT = """
AsyncClient AsyncStream Client ClientError ForwardResult MotionResult ServiceError SolveAnyResult SolveResult
SolveTarget Stream StreamAnswer StreamConfigured StreamTarget UnreachableError
"""
CONTROL = "ControlLimits ControlResult IKController LimitKind OneEuroFilter SecondOrderFilter TeleopTarget"
BULK = "BulkJob BulkReport FailedPartsError LocalWorker RayWorkers read_results solve_job"
PACKAGES = [
    (ik_service, IK_SERVICE),
    (objectives, OBJECTIVES),
    (ik_service.client, CLIENT),
    (ik_service.control, CONTROL),
    (ik_service.integrations.bulk, BULK),
]


@pytest.mark.parametrize(("package", "names"), PACKAGES)
def test_public_names_are_the_pinned_ones_and_resolve(package, names):
    assert sorted(package.__all__) == names.split()
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []


def test_no_name_is_public_in_two_packages():
    names = [name for package, _ in PACKAGES for name in package.__all__]
    assert len(names) == len(set(names))


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'IKSolvers'"):
        operator.attrgetter("IKSolvers")(ik_service)


def test_names_are_listed_before_they_are_loaded():
    assert dir(ik_service) == IK_SERVICE.split()
