"""Spheres of a collision model on the bodies of a robot, and lever arms: their largest motion per unit of a joint."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.world import MAX_ATTACHED, MAX_ATTACHED_SPHERES, AttachedObject
from ik_service.mechanism.arrays import Int32Array
from ik_service.mechanism.collision_model import CollisionModel
from ik_service.mechanism.joint_type import JointType
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.mechanism.transforms import UNBOUNDED, Float64Array, quaternion_rotate
from objectives.errors import InputError


@dataclass(frozen=True, eq=False)
class BodySpheres:
    """The spheres of a robot, link by link."""

    links: tuple[str, ...]  # names of the links with spheres, followed by objects attached to links
    link_start: Int32Array  # first sphere of each link; the last entry is the sphere count, shape [links + 1]
    link_body: Int32Array  # body that carries each link, -1 for the world, shape [links]
    centers: Float64Array  # centres in the body's frame, world frame for -1 [m], shape [spheres, 3]
    radii: Float64Array  # radii [m], shape [spheres]
    bounds: Float64Array  # bounding sphere of each link: centre in the body's frame, radius [m], shape [links, 4]
    pairs: Int32Array  # pairs of links checked for self-collision, indices into `links`, shape [pairs, 2]
    touches: tuple[frozenset[str], ...] = ()  # names of links and objects that each attached object may touch

    def of_link(self, place: int) -> slice:
        """Give the slice of a link's spheres."""
        return slice(int(self.link_start[place]), int(self.link_start[place + 1]))

    def may_touch(self, place: int, name: str) -> bool:
        """Return whether `place` is an attached object that may touch the link or object `name`."""
        attached = place - (len(self.links) - len(self.touches))
        return attached >= 0 and name in self.touches[attached]


def body_spheres(robot: KinematicRobot, model: CollisionModel) -> BodySpheres:
    """Put the spheres of a model on the bodies of its robot; UnknownNameError for an unknown link."""
    places = {link: place for place, link in enumerate(model.spheres)}
    pairs = np.array([[places[a], places[b]] for a, b in model.pairs], dtype=np.int32).reshape(-1, 2)
    return _spheres_on(robot, [(link, link, own) for link, own in model.spheres.items()], pairs)


def with_attached(robot: KinematicRobot, spheres: BodySpheres, attached: Mapping[str, AttachedObject]) -> BodySpheres:
    """Add attached objects, checked against all links that move relative to them except links in their `touches`."""
    own = _spheres_on(
        robot, [(name, one.link, one.spheres) for name, one in attached.items()], np.empty((0, 2), np.int32)
    )
    count = len(spheres.links)
    names, bodies = spheres.links + own.links, np.concatenate([spheres.link_body, own.link_body])
    touches = tuple(one.touches for one in attached.values())
    found = replace(
        own,
        links=names,
        link_start=np.concatenate([spheres.link_start, spheres.link_start[-1] + own.link_start[1:]]),
        link_body=bodies,
        **{
            field: np.concatenate([getattr(spheres, field), getattr(own, field)])
            for field in ("centers", "radii", "bounds")
        },
        touches=touches,
    )
    pairs = [
        (other, place)
        for place in range(count, len(names))
        for other in range(place)
        if bodies[other] != bodies[place]
        and not found.may_touch(place, names[other])
        and not found.may_touch(other, names[place])
    ]
    return replace(found, pairs=np.concatenate([spheres.pairs, np.array(pairs, np.int32).reshape(-1, 2)]))


def checked_attached(
    robot: KinematicRobot, spheres: BodySpheres, attached: Mapping[str, AttachedObject], others: Collection[str]
) -> Mapping[str, AttachedObject]:
    """Check attached objects (`others`: names of objects of worlds); UnknownNameError or InputError if invalid."""
    if not isinstance(attached, Mapping):
        raise InputError(f"attached must be a mapping of names to AttachedObject, got {type(attached).__name__}.")
    for name, one in attached.items():
        if not isinstance(name, str) or not isinstance(one, AttachedObject):
            raise InputError(f"attached must be a mapping of names to AttachedObject, got {name!r}: {one!r:.80}.")
        if not name or name in spheres.links or name in others:
            raise InputError(f"An attached object cannot have the name {name!r}: it is empty, a link's or an object's.")
        robot.link_frame(one.link)
    count = sum(len(one.spheres) for one in attached.values())
    if len(attached) > MAX_ATTACHED or count > MAX_ATTACHED_SPHERES:
        raise InputError(
            f"{len(attached)} objects with {count} spheres are attached. Allowed: {MAX_ATTACHED} with "
            f"{MAX_ATTACHED_SPHERES} in all."
        )
    return attached


def _spheres_on(
    robot: KinematicRobot, parts: Sequence[tuple[str, str, Float64Array]], pairs: Int32Array
) -> BodySpheres:
    """Put named parts on the bodies of a robot: (name, link, spheres in the link's frame)."""
    frames = [robot.link_frame(link) for _, link, _ in parts]
    centers = [
        frame[:3] + quaternion_rotate(frame[3:], own[:, :3])
        for (_, frame), (_, _, own) in zip(frames, parts, strict=True)
    ]
    radii = [own[:, 3] for _, _, own in parts]
    bounds = [_bound(own, radius) for own, radius in zip(centers, radii, strict=True)]
    return BodySpheres(
        links=tuple(name for name, _, _ in parts),
        link_start=np.cumsum([0, *map(len, radii)], dtype=np.int32),
        link_body=np.array([body for body, _ in frames], dtype=np.int32),
        centers=np.concatenate([np.empty((0, 3)), *centers]),
        radii=np.concatenate([np.empty(0), *radii]),
        bounds=np.array(bounds).reshape(-1, 4),
        pairs=pairs,
    )


def _bound(centers: Float64Array, radii: Float64Array) -> Float64Array:
    """Give a nearly minimal bounding sphere: the centre walks towards the farthest-reaching sphere."""
    middle = 0.5 * ((centers - radii[:, None]).min(axis=0) + (centers + radii[:, None]).max(axis=0))
    for step in range(1, 200):
        reach = np.linalg.norm(centers - middle, axis=1) + radii
        furthest = int(np.argmax(reach))
        middle = middle + (centers[furthest] - middle) / (step + 1)
    return np.append(middle, (np.linalg.norm(centers - middle, axis=1) + radii).max())


def levers(
    robot: KinematicRobot, spheres: BodySpheres, joint_q: NDArray[np.floating[Any]] | None = None
) -> Float64Array:
    """Return the largest motion of sphere centres per unit of each DOF [m per rad or m], [links, joint_dof_count].

    Valid for configurations within limits, and for `joint_q`, [n, joint_coord_count], if given. InputError if a joint
    rotates a sliding joint without a limit.
    """
    found = np.zeros((len(spheres.links), robot.joint_dof_count))
    farthest = np.maximum(np.abs(robot.joint_limit_lower), np.abs(robot.joint_limit_upper))
    if joint_q is not None:
        own = robot.dof_coordinate >= 0
        farthest[own] = np.maximum(farthest[own], np.abs(joint_q[:, robot.dof_coordinate[own]]).max(axis=0))
    for place, body in enumerate(spheres.link_body):
        reach = float(np.linalg.norm(spheres.centers[spheres.of_link(place)], axis=1).max())
        joint = int(body)
        while joint >= 0:
            slides, turns = slides_and_turns(robot, joint)
            found[place, slides], found[place, turns] = 1.0, reach
            reach += float(np.linalg.norm(farthest[slides])) + float(np.linalg.norm(robot.joint_X_p[joint][:3]))
            joint = int(robot.joint_parent[joint])
    if not np.isfinite(found).all():
        name = robot.dof_names[int(np.flatnonzero(~np.isfinite(found).all(axis=0))[0])]
        raise InputError(
            f"'{name}' turns a joint that slides without a limit, so nothing bounds how far it moves links. Give that "
            "one a limit, or do not ask for clearance on the way."
        )
    return found


def farthest_slides(robot: KinematicRobot) -> Float64Array:
    """Return the bound of sliding coordinates for which `levers` hold [m], [joint_coord_count]; inf for angles."""
    found = np.full(robot.joint_coord_count, np.inf)
    for joint in range(robot.joint_count):
        slides, _ = slides_and_turns(robot, joint)  # each has a coordinate
        limits = np.abs([robot.joint_limit_lower[slides], robot.joint_limit_upper[slides]])
        found[robot.dof_coordinate[slides]] = limits.max(axis=0)
    return found


def slides_between(robot: KinematicRobot) -> Float64Array:
    """Return the total sliding length of joints between bodies [m], [joint_count + 1] squared; -1 is the world."""
    count = robot.joint_count
    slide, carries = np.zeros(count), np.zeros((count + 1, count))
    for joint in range(count):
        own, _ = slides_and_turns(robot, joint)
        lower, upper = (
            np.clip(limit[own], -UNBOUNDED, UNBOUNDED) for limit in (robot.joint_limit_lower, robot.joint_limit_upper)
        )
        slide[joint] = (upper - lower).sum()
        carries[joint] = carries[robot.joint_parent[joint]]  # parents come first; the world has no joint above
        carries[joint, joint] = 1.0
    above, common = carries @ slide, (carries * slide) @ carries.T
    return np.asarray(above[:, None] + above[None] - 2.0 * common)


def slides_and_turns(robot: KinematicRobot, joint: int) -> tuple[slice, slice]:
    """Give the sliding DOFs and the rotating DOFs of a joint."""
    first, end = int(robot.joint_qd_start[joint]), int(robot.joint_qd_start[joint + 1])
    slides = JointType(robot.joint_type[joint]).linear_dof_count
    return slice(first, first + slides), slice(first + slides, end)
