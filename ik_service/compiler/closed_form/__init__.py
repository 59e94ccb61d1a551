"""Closed forms of arms, found from their joint axes: proofs that a target is out of reach."""

from ik_service.compiler.closed_form.arm import Arm, arm_of
from ik_service.compiler.closed_form.classes import ArmClass, NominalArm, nominal_arm
from ik_service.compiler.closed_form.proofs import ArmProofs
from ik_service.compiler.closed_form.source import ProofSource

__all__ = ["Arm", "ArmClass", "ArmProofs", "NominalArm", "ProofSource", "arm_of", "nominal_arm"]
