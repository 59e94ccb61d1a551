"""The kernel for samples of the self-motion of an arm with seven joints: all configurations of one target.

samples of the last joint, even over its range -> their branches within the limits, with the manipulability of each

A lane of a packet has a sample. Contact is not looked for.
"""

import typing
from typing import Any

import warp as wp

from ik_service.compiler.closed_form import ProofSource
from ik_service.kernels.typed_warp import reference_to
from ik_service.solver.arrays.parts import first_place
from ik_service.solver.compiled.iteration import cpu_options
from ik_service.solver.compiled.proof_task import (
    FIRST_ANGLE,
    MARGIN,
    RADIUS,
    ProofTask,
    is_as_locked,
    number_at,
    range_of_last,
    reading_of,
)

MOTION_SAMPLES = 32  # of the last joint
MOTION_SAMPLES_MAX = 8 * MOTION_SAMPLES  # of a problem, with all branches
VOLUME = RADIUS  # place of the manipulability among the numbers of a branch


@typing.no_type_check
def self_motion_kernel(source: ProofSource) -> wp.Kernel:
    """Return the kernel; its arguments are those of the kernel of proofs, and the phase is not used."""
    W, JOINTS = source.lanes.width, len(source.arm.arm.dofs)
    BRANCHES, OUTPUTS, LAST = source.branches_at_last_joint, source.outputs_at_last_joint, len(source.inputs) - 3
    Inputs: Any = wp.types.vector(len(source.inputs) * W, wp.float32)
    Found: Any = wp.types.vector(BRANCHES * OUTPUTS * W, wp.float32)
    Bits: Any = wp.types.vector(BRANCHES, int)
    InputsRef: Any = reference_to(Inputs)
    FoundRef: Any = reference_to(Found)
    BitsRef: Any = reference_to(Bits)
    at = number_at(Found)
    read_target, read_rest = reading_of(Inputs, W, JOINTS)
    range_of = range_of_last(Inputs, W, JOINTS)

    @wp.func_native(source.solutions_text(with_volumes=True))
    def solutions(inputs: InputsRef, found: FoundRef, bits: BitsRef) -> int: ...

    @wp.kernel(module="unique", enable_backward=False, module_options=cpu_options())
    def sample_self_motions(task: ProofTask, phase: int, part: int, parts: int):
        place = first_place(task.settings, task.count, task.problem, part, parts)
        end = first_place(task.settings, task.count, task.problem, part + 1, parts)
        inputs = Inputs()
        found = Found()
        bits = Bits()
        while place < end:
            p = task.problem[place]
            place += 1
            for lane in range(W):
                read_target(inputs, lane, task, p)
                read_rest(inputs, lane, task, p)
            angles = range_of(inputs)
            width = angles[1] / float(MOTION_SAMPLES)
            count = int(0)
            done = wp.where(is_as_locked(task, p), 0, MOTION_SAMPLES)
            while done < MOTION_SAMPLES:
                first = angles[0] + width * (float(done) + 0.5)
                for m in range(W):
                    inputs[LAST * W + m] = first + width * float(m)
                solutions(inputs, found, bits)
                for b in range(BRANCHES):
                    for m in range(wp.min(W, MOTION_SAMPLES - done)):
                        volume = at(found, (b * OUTPUTS + VOLUME) * W + m)
                        if (bits[b] >> m) & 1 == 0 and wp.isfinite(volume):
                            row = p * MOTION_SAMPLES_MAX + count
                            task.sample_value[row, 0] = at(found, (b * OUTPUTS + MARGIN) * W + m)
                            task.sample_value[row, 1] = volume
                            task.sample_value[row, 2] = first + width * float(m)
                            for c in range(task.attempt_joint_q.shape[1]):
                                task.attempt_joint_q[row, c] = task.start_joint_q[p, c]
                            for j in range(JOINTS - 1):
                                angle = at(found, (b * OUTPUTS + FIRST_ANGLE + j) * W + m)
                                task.attempt_joint_q[row, task.column[j]] = angle
                            task.attempt_joint_q[row, task.column[JOINTS - 1]] = first + width * float(m)
                            count += 1
                done += W
            task.sample_count[p] = count

    return sample_self_motions
