"""A GPU thread that works on an island of up to 12 DOFs has room for all of it; compiled for every architecture.

No GPU is needed: NVRTC makes the code that a card would run, and the cubin tells what it takes. Nothing may stand in
local memory. What finds no register may stand in shared memory, which is as near as the first cache; up to 11 DOFs
nothing has to.
"""

import sys

import pytest

import ik_service
from ik_service.robots import load_urdf
from ik_service.solver.compiled.waves import WAVE_BLOCK_DIM
from tests.gpu_code.cubins import compiled_for, island_kernels, usage

pytestmark = pytest.mark.evidence

ARCHITECTURES = [75, 80, 86, 89, 90, 100, 120]
REGISTERS_MAX = 255  # that an instruction can name
DOFS_IN_REGISTERS = 11
SPILLED_MAX = 24  # numbers of a thread in shared memory: 25 of 64 KiB on the smallest of these cards, for 8 warps
AXES = ("0 0 1", "0 1 0", "1 0 0")


def chain(count):
    """A serial robot without an angle that makes the arithmetic simpler."""
    joints = [
        f'<link name="link{k + 1}"/><joint name="joint{k}" type="revolute"><parent link="link{k}"/>'
        f'<child link="link{k + 1}"/><origin xyz="0.05 0.02 0.15" rpy="0.3 0.2 {0.1 * k}"/><axis xyz="{AXES[k % 3]}"/>'
        '<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/></joint>'
        for k in range(count)
    ]
    return load_urdf(f'<robot name="chain{count}"><link name="link0"/>{"".join(joints)}</robot>')


ROBOTS = {
    "ur5e": lambda: (ik_service.load_robot("ur5e", collision="ignore"), ["tool0"]),
    "panda": lambda: (ik_service.load_robot("panda", collision="ignore"), ["panda_hand"]),
    "an arm of dual_panda": lambda: (ik_service.load_robot("dual_panda", collision="ignore"), ["right_panda_hand"]),
    **{f"chain of {n}": lambda n=n: (chain(n), [f"link{n}"]) for n in (8, 10, 11, 12)},
}


@pytest.fixture(scope="module")
def kernels():
    """The kernels by robot."""
    found = {}
    for name, make in ROBOTS.items():
        robot, links = make()
        (found[name],) = island_kernels(ik_service.IKSolver(robot, links, device="cpu", engine="compiled"))
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_of_an_island_stands_in_local_memory(kernels, architecture, tmp_path):
    taken = {
        name: usage(compiled_for(one.kernel, architecture, tmp_path / name.replace(" ", "_")))
        for name, one in kernels.items()
    }
    own = min(one.shared_bytes for one in taken.values())  # what a block without spills takes
    lines = [f"\nsm_{architecture:<21} DOFs registers  local bytes  numbers in shared memory"]
    for name, one in taken.items():
        dofs = len(kernels[name].source.program.dofs)
        spilled = (one.shared_bytes - own) // (4 * WAVE_BLOCK_DIM)
        lines.append(f"{name:<24} {dofs:>4} {one.registers:>9} {one.local_bytes:>12} {spilled:>25}")
        assert 64 < one.registers <= REGISTERS_MAX
        assert one.local_bytes == 0, name
        assert spilled <= (SPILLED_MAX if dofs > DOFS_IN_REGISTERS else 0), name
    sys.stdout.write("\n".join(lines) + "\n")


def test_what_does_not_fit_is_seen(tmp_path):
    """The same reading finds the spills of an island that is too large."""
    solver = ik_service.IKSolver(chain(24), ["link24"], device="cpu", engine="compiled")
    (one,) = island_kernels(solver)
    assert usage(compiled_for(one.kernel, 90, tmp_path)).local_bytes > 100
