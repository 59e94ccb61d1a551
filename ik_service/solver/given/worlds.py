"""Worlds of the problems of a solve, and the objects present in them, as given by a caller."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import checked_attached
from ik_service.collision.world import AttachedObject, World
from ik_service.robots import RobotModel
from ik_service.solver.given.arrays import as_numpy
from ik_service.solver.given.options import SolverOptions
from objectives import InputError


class CheckedWorlds(NamedTuple):
    """Worlds and attached objects in the collision check of a solve, beside the robot itself."""

    worlds: tuple[World, ...]  # the worlds, possibly none
    number: NDArray[np.int32]  # index of the world of each problem, int32 [1 or problems]
    # objects present in the world, [1 or problems, most objects of a world]; None for all
    enabled: NDArray[np.bool_] | None
    attached: Mapping[str, AttachedObject]  # objects carried by links, by name

    def part(self, problems: slice | NDArray[np.intp]) -> "CheckedWorlds":
        """Return the worlds of some of the problems."""
        enabled = self.enabled if self.enabled is None or len(self.enabled) == 1 else self.enabled[problems]
        return self._replace(number=self.number if len(self.number) == 1 else self.number[problems], enabled=enabled)


def is_checked(robot: RobotModel, options: SolverOptions, world: object) -> bool:
    """Return whether a solve checks for collision, with a world or None; the robot may lack the model for it."""
    if options.collision is None:
        return world is not None or robot.collision_model is not None
    return options.collision != "off"


def read_worlds(
    robot: RobotModel,
    options: SolverOptions,
    world: World | Sequence[World] | None,  # the world of all problems, or several
    index: Any,  # world of each problem, [problem_count]; None where there is one
    enabled: Any,  # objects present, [objects] or [problem_count, objects]; None for all
    attached: Mapping[str, AttachedObject] | None,  # objects carried by links, by name; None for none
    problem_count: int,
) -> CheckedWorlds | None:
    """Return the worlds and attached objects of the collision check; None for no check.

    UnknownNameError for an unknown link, InputError without a collision model, or for a value that is not allowed.
    """
    worlds = () if world is None else tuple(world) if isinstance(world, Sequence) else (world,)
    for one in worlds:
        if not isinstance(one, World):
            raise InputError(f"world must be a World or a list of them, got {type(one).__name__}.")
    if not is_checked(robot, options, worlds or attached or None):
        if options.best_of == "clearance":
            raise InputError("Option best_of='clearance' needs a check for collision: a robot with a collision model.")
        if options.margin > 0.0 and options.collision != "off":
            raise InputError("Option margin needs a check for collision: a robot with a collision model.")
        return None
    spheres = robot.body_spheres
    if spheres is None:
        raise InputError(
            f"Robot '{robot.name}' has no collision model. Give it one (robot.with_collision_model, or a file beside "
            "its own, which 'ik-service spheres' makes), or solve with the option collision='off'."
        )
    if options.collision == "world" and not worlds:
        raise InputError("Option collision='world' needs a world.")
    others = {name for one in worlds for name in one.names}
    held = checked_attached(robot, spheres, attached, others) if attached else {}
    if options.collision == "self" or (not worlds and index is None):
        return CheckedWorlds((), np.zeros(1, np.int32), None, held)
    return CheckedWorlds(worlds, _index(worlds, index, problem_count), _enabled(worlds, enabled, problem_count), held)


def _index(worlds: Sequence[World], index: Any, problem_count: int) -> NDArray[np.int32]:
    if index is None:
        if len(worlds) > 1:
            raise InputError(f"world_index is missing: there are {len(worlds)} worlds. Give [{problem_count}] numbers.")
        return np.zeros(1, np.int32)
    found = np.asarray(as_numpy("world_index", index))
    inside = found.dtype.kind in "iu" and found.shape == (problem_count,)
    if not inside or not ((found >= 0) & (found < len(worlds))).all():
        raise InputError(f"world_index must be [{problem_count}] whole numbers from 0 to {len(worlds) - 1}.")
    return found.astype(np.int32)


def _enabled(worlds: Sequence[World], enabled: Any, problem_count: int) -> NDArray[np.bool_] | None:
    if enabled is None:
        return None
    most, found = max(len(world.objects) for world in worlds), np.asarray(as_numpy("object_enabled", enabled))
    if found.dtype != np.bool_ or found.shape not in ((most,), (problem_count, most)):
        raise InputError(f"object_enabled must be truth values [{most}] or [{problem_count}, {most}].")
    return np.atleast_2d(found)
