"""Forward kinematics as an operation of PyTorch: poses of links in float64 on the host, with gradients."""

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ik_service.robots import RobotModel
from ik_service.solver.derivatives.link_poses import LinkChains
from ik_service.torch.registration import LastFunction, register
from objectives.errors import InputError

_CHAINS = dict[str, LinkChains]()  # by name, kept forever: a backward pass may outlive all other references
_NUMBERS = itertools.count()  # numbers for names, safe for several threads


@cache
def _name_of(robot: RobotModel, links: tuple[str, ...]) -> str:
    chains, name = LinkChains(robot, links), str(next(_NUMBERS))
    _CHAINS[name] = chains
    return name


class TorchPoses(NamedTuple):
    """Poses of links in the world frame.

    Attributes:
        positions: Positions [m], shape [*batch, links, 3].
        orientations_xyzw: Unit quaternions, shape [*batch, links, 4].
    """

    positions: Tensor
    orientations_xyzw: Tensor


class TorchKinematics:
    """Forward kinematics of links for tensors; UnknownNameError for an unknown link, InputError without a list."""

    def __init__(self, robot: RobotModel, links: Sequence[str]) -> None:
        if isinstance(links, str):
            raise InputError(f"links is {links!r}. Allowed: a list of names of links.")
        self.robot, self.links = robot, tuple(links)
        self._name = _name_of(robot, self.links)

    def __call__(self, joint_q: Tensor) -> TorchPoses:
        """Give the poses of the links at configurations in the robot's own order, shape [*batch, joint_coord_count].

        Coordinates are independent: mimic joints are taken from `joint_q`, and have gradients, too. InputError for a
        wrong number of coordinates, or integers.
        """
        count = self.robot.joint_coord_count
        if not joint_q.is_floating_point():
            raise InputError(f"joint_q is of type {joint_q.dtype}. Allowed: floating-point numbers.")
        if joint_q.ndim == 0 or joint_q.shape[-1] != count:
            raise InputError(f"joint_q has shape {list(joint_q.shape)}. Allowed: [*batch, {count}].")
        flat = joint_q.reshape(-1, count)
        found = PosesFunction.apply(flat, self._name, len(self.links))
        found = found.reshape(*joint_q.shape[:-1], *found.shape[1:])
        return TorchPoses(found[..., :3], found[..., 3:])


@torch.library.custom_op("ik_service::poses", mutates_args=())
def poses(joint_q: Tensor, name: str, links: int) -> Tensor:
    """Give poses, shape [n, links, 7]."""
    return torch.from_numpy(_CHAINS[name].poses(_numbers(joint_q))).to(joint_q)


@poses.register_fake
def _of_poses(joint_q: Tensor, name: str, links: int) -> Tensor:
    return joint_q.new_empty(joint_q.shape[0], links, 7)


@torch.library.custom_op("ik_service::pull_back_poses", mutates_args=())
def pull_back_poses(joint_q: Tensor, by_poses: Tensor, name: str) -> Tensor:
    """Give the gradient by configurations from the gradient by poses."""
    return torch.from_numpy(_CHAINS[name].pull_back(_numbers(joint_q), _numbers(by_poses))).to(joint_q)


@pull_back_poses.register_fake
def _of_pull_back_poses(joint_q: Tensor, by_poses: Tensor, name: str) -> Tensor:
    return torch.empty_like(joint_q)


class PullBackPosesFunction(LastFunction):
    """`pull_back_poses`, without second derivatives."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        """Pull a gradient back."""
        return pull_back_poses(*inputs)


class PosesFunction(torch.autograd.Function):
    """`poses` with gradients by the configurations, transparent to transforms of `torch.func`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        """Give poses."""
        return poses(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep the configurations."""
        joint_q, ctx.name, _ = inputs
        ctx.save_for_backward(joint_q)

    @staticmethod
    def backward(ctx: Any, by_poses: Tensor) -> tuple[Tensor | None, ...]:
        """Give the gradient by the configurations."""
        last = pull_back_poses if torch.compiler.is_compiling() else PullBackPosesFunction.apply
        return last(*ctx.saved_tensors, by_poses, ctx.name), None, None


register(poses)
register(pull_back_poses)


def _numbers(given: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return given.detach().to("cpu", torch.float64).numpy()
