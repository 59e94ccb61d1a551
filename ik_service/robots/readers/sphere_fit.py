"""Spheres fitted to the solids of links, with a budget: most spheres where links meet.

The surface of the union of a link's spheres follows the surface of the solid: each surface point belongs to the sphere
whose surface is nearest, and damped Gauss-Newton steps move and resize each sphere for its points. Links in contact in
sampled configurations, and links with large errors, get finer spheres until the budget is spent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ik_service.collision.body_spheres import body_spheres
from ik_service.collision.check import pair_distance, sphere_centers
from ik_service.collision.covered_cells import fewest
from ik_service.collision.covering import Solid, grid_inside, rounded
from ik_service.collision.link_pairs import ALWAYS, choose_pairs, pair_contacts
from ik_service.mechanism.collision_model import CollisionModel, LinkPair
from ik_service.mechanism.transforms import Float64Array, quaternion_conjugate, quaternion_rotate
from ik_service.robots.model import RobotModel

Fit = Literal["balanced", "outer", "inner"]
PER_LINK = 12  # spheres of a link on average
FINER = 0.8  # factor of the error allowed in a link from one refinement to the next
FINEST, SMALLEST = 0.003, 0.001  # least allowed error, and least radius of a sphere [m]
FIT_POINTS, FIT_STEPS = 800, 25  # surface points of a link, about, and steps of a fit
POWER = 4  # exponent of the errors in a fit: large errors count most
DAMPING, LONGEST_STEP = 0.05, 0.3  # share of the trace, and longest step of a sphere in radii
DRAWN_SAMPLES = 150  # random configurations in which links meet
ERROR_WEIGHT = 0.02  # priority of a link without contacts, as a share of the priority of a link always in contact
TOUCH_POINTS, TOUCH_SAMPLES = 20_000, 25  # surface points and configurations of a pair tested for contact
FREE_GAP = 0.001  # least gap of spheres at rest, where the shapes do not touch [m]
FEW_JOINTS = 2  # largest number of joints between links whose contacts random configurations do not miss
MOSTLY_SHARE = 0.8  # least share of configurations with touching shapes that counts as most configurations
MOSTLY, APART = "shapes touch in most configurations", "shapes of neighbours never touch"


def fit_spheres(
    robot: RobotModel,
    solids: Mapping[str, Solid],
    rest: Float64Array,
    *,
    per_link: float = PER_LINK,
    fit: Fit = "balanced",
    progress: Callable[[float], None] = lambda share: None,
) -> CollisionModel:
    """Fit about ``per_link`` spheres a link, on average, to solids, and choose the pairs of links to check.

    Left out are, besides the pairs of ``choose_pairs``: pairs whose shapes touch at rest and in most random
    configurations; pairs with at most two joints between the links whose spheres meet, but never their shapes. Where
    spheres touch at rest and the shapes do not, the spheres shrink until the configuration is free.

    Args:
        robot: The robot.
        solids: Solids by link, in the link's frame.
        rest: Configurations in which the robot may rest, shape [n, joint_coord_count].
        per_link: Budget of spheres; the last refinement may exceed the budget.
        fit: "balanced": spheres stand out of a link about as far as the link stands out of its spheres; "outer": all
            surface points are inside spheres; "inner": no surface point is deep inside a sphere.
        progress: Function called with the used share of the budget.
    """
    links = {link: _FittedLink(solid) for link, solid in solids.items()}
    pairs = choose_pairs(robot, _spheres(links, fit), DRAWN_SAMPLES)
    checked = (*pairs.pairs, *pairs.left_out.get(ALWAYS, ()))
    mostly = _mostly_touching(robot, solids, checked, rest)
    checked = tuple(pair for pair in checked if pair not in mostly)
    drawn = robot.random_joint_q(np.random.default_rng(0), DRAWN_SAMPLES)
    while (used := sum(len(own.radii) for own in links.values())) < per_link * len(links):
        progress(used / (per_link * len(links)))
        if not _refine(robot, links, CollisionModel(_spheres(links, fit), checked), drawn, rest, per_link * len(links)):
            break
    model = choose_pairs(robot, _spheres(links, fit))
    model = model.without_pairs([pair for pair in model.pairs if pair in mostly], MOSTLY)
    model = model.without_pairs(_never_touching(robot, solids, model), APART)
    return CollisionModel(_free_at(robot, links, model, rest), model.pairs, model.left_out)


class _FittedLink:
    """A solid and the spheres fitted to its surface."""

    def __init__(self, solid: Solid) -> None:
        self.solid, self.bound = solid, 0.3 * float(np.linalg.norm(solid.upper - solid.lower))
        self._inside, self._cell = grid_inside(solid)
        self._depths = -solid.signed_distance(self._inside)
        self._points = solid.surface[:: max(1, len(solid.surface) // FIT_POINTS)]
        self._fit()

    def refine(self) -> bool:
        """Fit more spheres; return whether the link has more spheres now."""
        before = len(self.radii)
        while len(self.radii) <= before and self.bound > FINEST:
            self.bound *= FINER
            self._fit()
        return len(self.radii) > before

    def spheres(self, fit: Fit) -> Float64Array:
        """Give centres and radii [m], shape [k, 4]."""
        nearest, gaps, _ = _assigned(self.solid.surface, self.centers, self.radii)
        radii = self.radii.copy()
        if fit == "outer":
            np.maximum.at(radii, nearest, self.radii[nearest] + gaps)
        elif fit == "inner":
            np.minimum.at(radii, nearest, self.radii[nearest] + gaps)
        return np.column_stack([self.centers, np.maximum(radii, SMALLEST)])

    def _fit(self) -> None:
        """Start from the fewest spheres that cover the surface and stand out by `bound`; keep the best of all steps."""
        radii = self._depths + self.bound
        if radii.max() < np.linalg.norm(self._cell):  # in a thin solid no sphere would cover its own cell of the grid
            radii[:] = np.linalg.norm(self._cell)
        chosen = fewest(self._inside, radii, self._points) or [int(radii.argmax())]
        centers, radii, least = self._inside[chosen], np.maximum(radii[chosen] - 0.5 * self.bound, SMALLEST), np.inf
        outside = np.maximum(self.solid.signed_distance(centers), 0.0)
        for _ in range(FIT_STEPS):
            nearest, gaps, away = _assigned(self._points, centers, radii)
            if (cost := float((gaps**POWER).mean())) < least:
                least, self.centers, self.radii, self.error = cost, centers, radii, float(np.abs(gaps).max())
            step = _gauss_newton_step(self._points, centers, nearest, gaps, away)
            step *= np.minimum(1.0, LONGEST_STEP * radii / np.maximum(np.linalg.norm(step, axis=1), 1e-12))[:, None]
            moved = centers + step[:, :3]
            further = self.solid.signed_distance(moved)
            stays = further > outside + 1e-4  # centres of spheres do not leave the solid
            centers = np.where(stays[:, np.newaxis], centers, moved)
            outside = np.where(stays, outside, np.maximum(further, 0.0))
            radii = np.maximum(radii + step[:, 3], SMALLEST)


def _gauss_newton_step(
    points: Float64Array, centers: Float64Array, nearest: NDArray[np.intp], gaps: Float64Array, away: Float64Array
) -> Float64Array:
    """Give the damped steps of centres and radii [m], shape [k, 4], that make the gaps of points small."""
    slopes = np.column_stack([(centers[nearest] - points) / np.maximum(away, 1e-9)[:, None], -np.ones(len(points))])
    weighted = (np.abs(gaps) ** (POWER - 2) + 1e-12)[:, None] * slopes
    belongs = (nearest == np.arange(len(centers))[:, None]).astype(float)
    normal = (belongs @ (weighted[:, :, None] * slopes[:, None]).reshape(-1, 16)).reshape(-1, 4, 4)
    right = belongs @ (weighted * gaps[:, None])
    normal += (DAMPING * np.trace(normal, axis1=1, axis2=2) + 1e-30)[:, None, None] * np.eye(4)
    return np.asarray(-np.linalg.solve(normal, right[..., np.newaxis])[..., 0])


def _assigned(
    points: Float64Array, centers: Float64Array, radii: Float64Array
) -> tuple[NDArray[np.intp], Float64Array, Float64Array]:
    """Give the sphere nearest to each point, the distances from its surface and from its centre [m], shape [n]."""
    away = np.sqrt(sum((points[:, axis, np.newaxis] - centers[:, axis]) ** 2 for axis in range(3)))
    nearest, rows = np.argmin(away - radii, axis=1), np.arange(len(points))
    return nearest, away[rows, nearest] - radii[nearest], away[rows, nearest]


def _spheres(links: Mapping[str, _FittedLink], fit: Fit) -> dict[str, Float64Array]:
    return {link: own.spheres(fit) for link, own in links.items()}


def _refine(
    robot: RobotModel,
    links: Mapping[str, _FittedLink],
    model: CollisionModel,
    drawn: Float64Array,
    rest: Float64Array,
    budget: float,
) -> bool:
    """Refine the sixth of the links with the largest error times share of contacts; return whether any was refined."""
    priority = dict.fromkeys(links, ERROR_WEIGHT)
    (_, shares, _), (at_rest, _, _) = (pair_contacts(robot, model, joint_q) for joint_q in (drawn, rest))
    for pair, share in zip(model.pairs, np.asarray(shares + (at_rest <= 0.0)), strict=True):
        for link in pair:
            priority[link] += share
    is_finer = False
    for link in sorted(links, key=lambda link: -priority[link] * links[link].error)[: max(3, len(links) // 6)]:
        if sum(len(own.radii) for own in links.values()) < budget:
            is_finer |= links[link].refine()
    return is_finer


def _mostly_touching(
    robot: RobotModel, solids: Mapping[str, Solid], pairs: Sequence[LinkPair], rest: Float64Array
) -> set[LinkPair]:
    """Give the pairs whose shapes touch at rest and in most random configurations."""
    at_rest = np.asarray(_touching(robot, solids, pairs, rest).any(axis=1))
    tried = [pair for pair, own in zip(pairs, at_rest, strict=True) if own]
    drawn = robot.random_joint_q(np.random.default_rng(1), TOUCH_SAMPLES)
    shares = _touching(robot, solids, tried, drawn).mean(axis=1)
    return {pair for pair, share in zip(tried, shares, strict=True) if share >= MOSTLY_SHARE}


def _free_at(
    robot: RobotModel, links: Mapping[str, _FittedLink], model: CollisionModel, rest: Float64Array
) -> dict[str, Float64Array]:
    """Give the spheres of a model, smaller where the error of the fit explains contacts at rest."""
    solids = {link: own.solid for link, own in links.items()}
    in_contact = _touching(robot, solids, model.pairs, rest)
    placed = body_spheres(robot, model)
    centers, radii = sphere_centers(robot, placed, rest), placed.radii.copy()
    for row, k in np.argwhere(~in_contact):
        a, b = placed.pairs[row]
        first, second = placed.of_link(a), placed.of_link(b)
        apart = np.linalg.norm(centers[first, k, np.newaxis] - centers[second, k], axis=-1) - FREE_GAP
        depth = radii[first, np.newaxis] + radii[second] - apart
        if depth.max() > links[placed.links[a]].error + links[placed.links[b]].error:
            continue  # the shapes touch between the tested points
        for one, other in np.argwhere(depth > 0.0):
            share = min(1.0, apart[one, other] / (radii[first][one] + radii[second][other]))
            radii[first][one] *= share
            radii[second][other] *= share
    radii = np.maximum(radii, SMALLEST)
    return {
        link: rounded(np.column_stack([model.spheres[link][:, :3], radii[placed.of_link(place)]]))
        for place, link in enumerate(placed.links)
    }


def _never_touching(robot: RobotModel, solids: Mapping[str, Solid], model: CollisionModel) -> list[LinkPair]:
    """Give the pairs of neighbours whose spheres meet in random configurations, but never their shapes."""
    drawn, found = robot.random_joint_q(np.random.default_rng(2), 10 * TOUCH_SAMPLES), list[LinkPair]()
    spheres = body_spheres(robot, model)
    centers = sphere_centers(robot, spheres, drawn)
    for pair, (first, second) in zip(model.pairs, spheres.pairs, strict=True):
        if _joints_between(robot, *pair) > FEW_JOINTS:
            continue
        meeting = drawn[pair_distance(spheres, centers, first, second) <= 0.0][:TOUCH_SAMPLES]
        if len(meeting) and not _touching(robot, solids, [pair], meeting).any():
            found.append(pair)
    return found


def _joints_between(robot: RobotModel, a: str, b: str) -> int:
    """Give the number of joints between the bodies of two links."""
    above: list[set[int]] = []
    for link in (a, b):
        joint, own = robot.link_frame(link)[0], set[int]()
        while joint >= 0:
            own.add(joint)
            joint = int(robot.joint_parent[joint])
        above.append(own)
    return len(above[0] ^ above[1])


def _touching(
    robot: RobotModel, solids: Mapping[str, Solid], pairs: Sequence[LinkPair], joint_q: Float64Array
) -> NDArray[np.bool_]:
    """Return whether a surface point of one link is inside the other, shape [pairs, n]."""
    links = list(solids)
    poses = robot.forward_kinematics(joint_q, links)
    place = {link: (poses.positions[:, k], poses.orientations_xyzw[:, k]) for k, link in enumerate(links)}
    found = np.zeros((len(pairs), len(joint_q)), bool)
    for row, pair in enumerate(pairs):
        for a, b in (pair, pair[::-1]):
            points = solids[a].surface[:: max(1, len(solids[a].surface) * len(joint_q) // TOUCH_POINTS)]
            for k in range(len(joint_q)):
                world = place[a][0][k] + quaternion_rotate(place[a][1][k], points)
                local = quaternion_rotate(quaternion_conjugate(place[b][1][k]), world - place[b][0][k])
                near = local[((local > solids[b].lower) & (local < solids[b].upper)).all(axis=1)]
                found[row, k] |= len(near) > 0 and bool((solids[b].signed_distance(near) < 0.0).any())
    return found
