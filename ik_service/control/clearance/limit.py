"""Clearance limit of a controller: reachable spheres, arrays, and launches in a tick."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from ik_service.collision.arrays import ObjectKind, WorldLines
from ik_service.collision.body_spheres import BodySpheres, farthest_slides, levers, with_attached
from ik_service.collision.check import pair_distance, sphere_centers
from ik_service.collision.collision_data import VERDICT_ROUNDING, CollisionData
from ik_service.collision.world import AttachedObject, World
from ik_service.compiler import Lanes
from ik_service.control.clearance.keep import keep_kernel
from ik_service.control.clearance.moves import (
    FARTHEST,
    HARD,
    KEPT,
    MARGINS_COUNT,
    OF_TICK,
    OWN,
    PARTING,
    ROWS,
    SETTLING,
    SLOWED,
    ClearanceTask,
)
from ik_service.control.tick.arrays import CLEARANCE_LEAST, TickArrays, device_array, packed_launch
from ik_service.kernels.device_lock import device_work
from ik_service.kernels.kernel_loading import LAUNCH_BLOCK, load_kernels
from ik_service.mechanism.coupling import follower_numbers
from ik_service.mechanism.kinematic_robot import KinematicRobot
from ik_service.robots import DeviceModel
from ik_service.solver.recorded_launches import RecordedStep
from objectives import InputError

SAMPLES = (8, 200, 800)  # random configurations per stage; later stages check only pairs near contact in all earlier
STILL = 1e-3  # variation of a distance below which two links count as fixed to each other, per length unit [m]


def pairs_to_keep(robot: KinematicRobot, spheres: BodySpheres, margin: float) -> NDArray[np.bool_]:
    """Give the mask of limited pairs: not fixed ones below the margin [m]; InputError for moving ones always below."""
    least, most = np.full(len(spheres.pairs), np.inf), np.full(len(spheres.pairs), -np.inf)
    rng = np.random.default_rng(0)
    for count in SAMPLES:
        drawn = np.vstack([robot.random_joint_q(rng, count), robot.mid_joint_q])
        centers = sphere_centers(robot, spheres, drawn)
        for k in np.flatnonzero(most < margin):
            distances = pair_distance(spheres, centers, *spheres.pairs[k])
            least[k], most[k] = min(least[k], distances.min()), max(most[k], distances.max())
    for k in np.flatnonzero((most < margin) & (most - least > STILL * robot.length_unit)):
        one, other = (spheres.links[place] for place in spheres.pairs[k])
        leave_out = "robot.with_collision_model(robot.collision_model.without_pairs([...], reason))"
        if spheres.pairs[k].max() >= len(spheres.links) - len(spheres.touches):
            leave_out = "AttachedObject(touches=[...])"
        raise InputError(
            f"ControlLimits.clearance is {margin:g} m, but in {sum(SAMPLES)} random configurations '{one}' and "
            f"'{other}' are at most {most[k]:.4f} m apart. Give less, or leave the pair out: {leave_out}."
        )
    return np.asarray(most >= margin)


KEEP_STEP = "keep"  # phase of the launch of this limit in recorded ticks
SPARE = 5e-4  # distance between promised and kept clearance, and between kept and resting clearance, per length unit
HORIZON = 0.1  # extra clearance beyond which joints are not slowed down, per length unit
OBJECT_LARGEST = 50.0  # half size and position of an object [m]: rounding stays well within the extra clearance
SETTLING_TIME, PARTING_TIME = 0.05, 0.01  # time constants of the approach to a margin, and of missing clearance [s]


class ClearanceLimit:
    """Clearance limit of a controller; InputError for unbounded levers, or links never as far apart as the margin."""

    keep: Callable[[], None]  # launches the kernel that makes the proposed move free of contact

    def __init__(
        self,
        model: DeviceModel,  # a robot with a collision model, on the device
        arrays: TickArrays,
        moved: NDArray[np.bool_],  # DOFs moved by the tasks, shape [joint_dof_count]; each has a coordinate
        margin: float,  # kept clearance [m]
        world: World | None,  # obstacles; None for none
    ) -> None:
        self._model, self._device, self._robots = model, model.device, arrays.joint_q.host.shape[0]
        lanes = Lanes(1) if model.device.is_cuda else Lanes.on_cpu()
        self._data, self._margin = CollisionData(model, lanes), margin
        self._attached: Mapping[str, AttachedObject] = {}
        self._checked: WorldLines | None = None
        coordinates = self._of_coordinates(moved)
        leads = coordinates["leader"] == np.arange(model.joint_coord_count)
        self._kernel = keep_kernel(self._data.size, int(leads.sum()))
        load_kernels({self._kernel.module: LAUNCH_BLOCK}, model.device)
        self._task = self._make_task(arrays, coordinates)
        self._check_spheres(model.robot.body_spheres)
        arrays.numbers.host[CLEARANCE_LEAST] = margin + VERDICT_ROUNDING
        self._version = -1
        self.use(world, {})

    def use(self, world: World | None, attached: Mapping[str, AttachedObject]) -> None:
        """Use other obstacles and other attached objects from the next tick on.

        InputError if an attached object is never as far from a link as the margin, or if an object of the world is too
        large or too far away for float32.
        """
        robot = self._model.robot
        if world is not None:
            self._check_sizes(self._data.lines_of((world,)))
        with device_work(self._device):
            if attached != self._attached:
                self._check_spheres(with_attached(robot, robot.body_spheres, attached))
                self._attached = dict(attached)
            self._data.use([] if world is None else [world], np.zeros(1, np.int32), None, attached, self._margin)
            if self._version == self._data.version:
                return
            self.keep = packed_launch(self._kernel, self._robots, self._inputs, self._device)
            self._version = self._data.version

    @property
    def _inputs(self) -> tuple[Any, ...]:
        return self._task, self._spheres, self._data.worlds

    def recorded(self) -> tuple[RecordedStep, dict[str, "wp.array[Any]"]]:
        """Return the launch of this limit, and its arrays that change, by name, except the arrays of the tick."""
        step = RecordedStep(KEEP_STEP, self._kernel, self._inputs, False, str(self._robots))
        return step, {f"clearance_{name}": getattr(self._task, name) for name in OWN}

    def _check_spheres(self, spheres: BodySpheres) -> None:
        """Take these spheres, without fixed pairs closer than the margin."""
        robot = self._model.robot
        checked = replace(spheres, pairs=spheres.pairs[pairs_to_keep(robot, spheres, self._margin)])
        of_links = np.zeros((len(spheres.links), robot.joint_coord_count))
        scalar = robot.dof_coordinate >= 0
        of_links[:, robot.dof_coordinate[scalar]] = levers(robot, spheres)[:, scalar]
        self._spheres = self._data.sphere_arrays.with_spheres(checked).of_trees(range(robot.trees.ntree))
        self._task.lever = device_array(of_links.max(axis=0), wp.float64, self._device)
        self._task.levers = device_array(of_links, wp.float32, self._device)

    def _make_task(self, arrays: TickArrays, coordinates: dict[str, NDArray[np.int32]]) -> Any:
        robot, device, count = self._model.robot, self._device, self._model.joint_coord_count
        task: Any = ClearanceTask()
        shared = arrays.of_task()
        for name in OF_TICK:
            setattr(task, name, shared[name])
        task.reference = shared["reference_before"]
        for name, values in coordinates.items():
            setattr(task, name, device_array(values, wp.int32, device))
        dofs = np.flatnonzero(robot.dof_coordinate >= 0)
        numbers = np.zeros((count, 4))
        numbers[robot.dof_coordinate[dofs]] = follower_numbers(
            robot, dofs.tolist(), robot.joint_limit_lower, robot.joint_limit_upper
        )
        task.follower_number = device_array(numbers, wp.float64, device)
        task.margins = device_array(self._margins(), wp.float64, device)
        farthest = np.nextafter(farthest_slides(robot).astype(np.float32), np.float32(np.inf))  # rounded up
        task.farthest = device_array(farthest, wp.float32, device)
        task.count = wp.zeros(self._robots, dtype=wp.int32, device=device)
        task.gaps = wp.zeros((self._robots, ROWS), dtype=wp.float32, device=device)
        task.room = wp.zeros((self._robots, ROWS), dtype=wp.float64, device=device)
        task.slopes = wp.zeros((self._robots, ROWS, count), dtype=wp.float32, device=device)
        for name in ("move", "wanted", "least", "most", "stopping"):
            setattr(task, name, wp.zeros((self._robots, count), dtype=wp.float64, device=device))
        return task

    def _of_coordinates(self, moved: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
        """Give the integers of `ClearanceTask`, by coordinate."""
        robot = self._model.robot
        found = {name: np.full(robot.joint_coord_count, -1, np.int32) for name in ("leader", "active", "dof")}
        for dof, coordinate in enumerate(robot.dof_coordinate):
            if coordinate < 0:
                continue
            found["dof"][coordinate], found["active"][coordinate] = dof, robot.dof_active[dof]
            if moved[dof]:
                found["leader"][coordinate] = robot.dof_coordinate[robot.dof_leader[dof]]
        return found

    def _margins(self) -> NDArray[np.float64]:
        unit, hard = self._model.robot.length_unit, self._margin + VERDICT_ROUNDING
        margins = np.zeros(MARGINS_COUNT)
        margins[HARD], margins[KEPT], margins[SLOWED] = hard + np.array([0.0, 1.0, 2.0]) * SPARE * unit
        margins[FARTHEST] = margins[SLOWED] + HORIZON * unit
        margins[SETTLING], margins[PARTING] = SETTLING_TIME, PARTING_TIME
        return margins

    def _check_sizes(self, lines: WorldLines) -> None:
        """Refuse objects whose numbers lose too much precision in float32."""
        if lines is self._checked:
            return
        numbers = np.abs(lines.shape[:, 9:])  # position and lengths
        numbers[lines.kind == ObjectKind.GRID, 4] = 0.0  # the steepness of a grid
        sizes = numbers.max(axis=1, initial=0.0)
        for k in np.flatnonzero(sizes > OBJECT_LARGEST).tolist():
            raise InputError(
                f"Object '{lines.names[k]}' has a size or a place of {sizes[k]:g} m. A controller, which computes in "
                f"float32, takes up to {OBJECT_LARGEST:g} m. Leave out what no link reaches, or give a half-space, "
                "which has no size."
            )
        self._checked = lines
