"""The panel of one visitor: all controls, and the action of each control.

The panel holds no state of the robot: the visitor sets the shown values, and the panel calls back with changes.
"""

import math
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, get_args

import numpy as np
import viser
import viser.transforms

from ik_service.mechanism.transforms import quaternion_from_rpy
from ik_service.motion.clip_result import ClipResult
from ik_service.motion.result import PathResult
from ik_service.page.drawn_path import RAMP_S, WAYPOINT_S
from ik_service.page.posed_robot import DIRECTIONS, PLANES, PosedRobot, TargetState
from ik_service.page.questions import ROTATIONS
from ik_service.page.stage import OBSTACLE_SIZE, Obstacle
from ik_service.page.words import BRANCHES, solutions_html
from ik_service.robots import JointType, RobotModel
from ik_service.solver.candidates import Criterion

UNLIMITED_TURN, UNLIMITED_WAY = np.pi, 1.0  # range of the slider of a joint without limits [rad, m]
NO_SLICE = "off"
SLICE = "Where the first target could be met in its present orientation: green; crimson where only in contact."
PLOT_COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")
FREE = "Any turn about this axis of the link will do."
PICK = (
    "A click on a link gives its frame a target where it is; another click takes that away. "
    "Untick other targets that leave it no freedom."
)
SPHERES = "The spheres of the collision model; the closest two links in red."
HERE = "this one"
TRY = f"The first target in {DIRECTIONS} orientations at its place: the best is taken. Small grippers show all."
CLIP = f"Targets need not be met: least errors within joint speeds, each reached in {RAMP_S:g} s at the soonest."
JOINTS, SPEEDS = "joints", "speeds"


class Panel:
    """The panel, with the names of the robots; `posed` is the shown robot.

    `enqueue` is called on the event loop with an action and its value, and may not block. `status` is the status text.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        names: Sequence[str],
        posed: PosedRobot,
        enqueue: Callable[[str, Any], None],
        status: viser.GuiHtmlHandle,
    ) -> None:
        self._gui, self._enqueue, robot = gui, enqueue, posed.robot
        self.status = status
        self.robot = self._input("robot", gui.add_dropdown("Robot", list(names), initial_value=posed.name))
        hint = "At most 1 MB; its meshes are not read. It stays on this page, and is not listed to others."
        self._input("upload", gui.add_upload_button("Show my URDF", color="gray", hint=hint, mime_type=".urdf,.xml"))
        tabs = gui.add_tab_group()
        self.numbers: dict[str, tuple[Any, Any, Any]] = {}  # position, rotation and switch of each target
        idle = posed.idle_dofs()
        joints = [(joint, int(robot.joint_qd_start[joint]) in idle) for joint in _slid_joints(robot)]
        with tabs.add_tab("Targets") as self._targets_tab:
            for target in posed.targets.values():
                self._add_target(target, is_open=not self.numbers)
            self.sliders = [self._slider(robot, posed, joint) for joint, is_idle in joints if is_idle]
            self._button("Undo the last drag", "undo", "Of a target.")
            self._button("Start again", "restart", "Robot and settings as they were at first, without obstacles.")
            hint = "Off: stay on the branch. On: take whichever start succeeds first."
            self.any_branch = self._input("branch", gui.add_checkbox("May jump to another branch", False, hint=hint))
            self.picks = self._input("picks", gui.add_checkbox("Add targets by clicking links", False, hint=PICK))
        with tabs.add_tab("Joints"):
            self.sliders += [self._slider(robot, posed, joint) for joint, is_idle in joints if not is_idle]
        self.collision: Any = None
        if robot.collision_model is not None:
            with tabs.add_tab("Obstacles"):
                self._button("Add a box", "box")
                self._button("Add a ball", "ball")
                size = gui.add_slider(
                    "Size [mm]", 20.0, 600.0, 10.0, 1e3 * OBSTACLE_SIZE, hint="Of the one moved last."
                )
                self.size = self._input("size", size, lambda value: 1e-3 * value)
                self._button("Remove the one moved last", "remove")
                self.collision = self._input("collision", gui.add_checkbox("Avoid contact", True))
                self.spheres = self._input("spheres", gui.add_checkbox("Show collision spheres", False, hint=SPHERES))
        with tabs.add_tab("Explore"):
            only = "A robot that closes loops is solved for one." if robot.loops else None
            self.others = self._button("Other solutions", "solutions", only)
            self.others.disabled = only is not None
            self.solution = self._input("pick", gui.add_dropdown("Take", [HERE], disabled=True, hint=BRANCHES))
            self.criterion = gui.add_dropdown("Best by", get_args(Criterion), initial_value="manipulability")
            self._button("Try other directions", "try", TRY)
            self.found = gui.add_html("")
            self.plane = self._input("slice", gui.add_dropdown("Reachable slice", [NO_SLICE, *PLANES], hint=SLICE))
            self._button("Solve 1000 random targets", "random")
            self.random = gui.add_html("")
        with tabs.add_tab("Path") as self._path_tab:
            self.record = gui.add_checkbox("Record what is dragged", False)
            self._button("Follow the path", "follow", "Through all recorded waypoints, on the best branch.")
            self._button("Fit a clip", "fit", CLIP)
            self._button("Clear", "clear")
            time = gui.add_slider("Time [s]", 0.0, 1.0, WAYPOINT_S, 0.0, disabled=True)
            self.time = self._input("time", time)
            self.plotted = self._input("plot", gui.add_dropdown("Plot", (JOINTS, SPEEDS)))
            self._button("Save as CSV", "save", "Times, joints and speeds of the path that was followed.")
            self.path = gui.add_html("")
            self._plot: Any = None
        with tabs.add_tab("Code"):
            self.request = gui.add_html("")

    def _add_target(self, target: TargetState, *, is_open: bool) -> None:
        gui, name = self._gui, f"target {target.link}"
        with gui.add_folder(target.link, expand_by_default=is_open):
            switch = self._input(name, gui.add_checkbox("Target", target.is_on), lambda value: {"is_on": value})
            position = gui.add_vector3("Position [m]", (0.0, 0.0, 0.0), step=0.001)
            rotation = gui.add_vector3("Rotation [°]", (0.0, 0.0, 0.0), step=0.1, hint="Roll, pitch, yaw.")
            self._input(name, position, lambda value: {"position": np.array(value)})
            self._input(
                name, rotation, lambda value: {"orientation_xyzw": quaternion_from_rpy(*np.radians(value).tolist())}
            )
            boxes = [gui.add_checkbox(f"Free about {axis[1]}", axis in target.free, hint=FREE) for axis in ROTATIONS]
            for box in boxes:
                self._input(name, box, lambda _: {"free": tuple(compress(ROTATIONS, [one.value for one in boxes]))})
        self.numbers[target.link] = position, rotation, switch

    def _slider(self, robot: RobotModel, posed: PosedRobot, joint: int) -> tuple[Any, int, float]:
        """Make the slider of a joint; return the slider, its coordinate, and slider units per coordinate unit."""
        dof, coordinate = int(robot.joint_qd_start[joint]), int(robot.joint_q_start[joint])
        is_way = robot.joint_type[joint] == JointType.PRISMATIC
        scale, unit, room = (1e3, "mm", UNLIMITED_WAY) if is_way else (180.0 / np.pi, "°", UNLIMITED_TURN)
        limits = np.array([robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]])
        lower, upper = (10.0 * scale * np.where(np.isfinite(limits), limits, [-room, room])).tolist()
        least, most = math.ceil(lower) / 10.0, math.floor(upper) / 10.0
        value = min(max(round(scale * float(posed.joint_q[coordinate]), 1), least), max(most, least))
        name = f"{robot.joint_names[joint]} [{unit}]"
        slider = self._gui.add_slider(name, least, max(most, least), 0.1, value)
        return self._input(f"joint {coordinate}", slider, lambda value: value / scale), coordinate, scale

    def _button(self, label: str, action: str, hint: str | None = None) -> viser.GuiButtonHandle:
        button = self._gui.add_button(label, hint=hint)
        return self._input(action, button, lambda _: None)

    def _input(self, action: str, handle: Any, value_of: Callable[[Any], Any] = lambda value: value) -> Any:
        """Act when the visitor, and not the page, has changed a value; return the handle."""

        async def changed(event: viser.GuiEvent[Any]) -> None:
            if event.client is not None:
                self._enqueue(action, value_of(handle.value))

        kinds = {viser.GuiUploadButtonHandle: "on_upload", viser.GuiButtonHandle: "on_click"}
        getattr(handle, kinds.get(type(handle), "on_update"))(changed)
        return handle

    def show_posed(self, posed: PosedRobot) -> None:
        """Show joints and targets, with targets of picked links."""
        with self._targets_tab:
            for link in posed.targets.keys() - self.numbers.keys():
                self._add_target(posed.targets[link], is_open=True)
        for slider, coordinate, scale in self.sliders:
            value = scale * float(posed.joint_q[coordinate])
            slider.value = round(min(max(value, slider.min), slider.max), 2)
        for link, (position, rotation, switch) in self.numbers.items():
            pose, switch.value = posed.targets[link].pose, posed.targets[link].is_on
            position.value = tuple(np.round(pose[:3], 4).tolist())
            turn = viser.transforms.SO3.from_quaternion_xyzw(pose[3:]).as_rpy_radians()
            rotation.value = tuple(np.round(np.degrees([turn.roll, turn.pitch, turn.yaw]), 2).tolist())

    def show_size(self, last: Sequence[Obstacle]) -> None:
        """Show the size of the obstacle moved last, if any."""
        for one in last:
            self.size.value = round(1e3 * one.size, 1)

    def show_motion(self, posed: PosedRobot, path: PathResult | ClipResult | None) -> None:
        """Plot positions or speeds of joints with sliders along a path; of None, remove the plot."""
        if self._plot is not None:
            self._plot.remove()
        self._plot, self.time.disabled = None, path is None
        if path is None:
            return
        self.time.max = path.dt * max(len(path) - 1, 1)
        robot, shown = posed.robot, self.sliders[: len(PLOT_COLORS)]
        title, columns = "Joints [° or mm]", [scale * path.joint_q[:, c] for _, c, scale in shown]
        if self.plotted.value == SPEEDS:
            dofs = [robot.dof_coordinate.tolist().index(c) for _, c, _ in shown]
            title = "Speeds [°/s or mm/s]"
            columns = [scale * path.joint_qd[:, dof] for dof, (_, _, scale) in zip(dofs, shown, strict=True)]
        names = [robot.coordinate_names[coordinate] for _, coordinate, _ in shown]
        lines = [{"label": name, "stroke": color} for name, color in zip(names, PLOT_COLORS, strict=False)]
        with self._path_tab:
            self._plot = self._gui.add_uplot(
                (path.dt * np.arange(len(path)), *columns),
                ({"label": "s"}, *lines),
                scales={"x": {"time": False}},
                title=f"{title} over time [s]",
                aspect=1.4,
            )

    def show_solutions(self, names: Sequence[str], *, is_complete: bool | None = None) -> None:
        """Offer solutions to choose from, by name; say whether they are all, None for no search."""
        self.solution.options, self.solution.value, self.solution.disabled = (HERE, *names), HERE, not names
        is_checked = self.collision is not None and self.collision.value
        self.found.content = (
            "" if is_complete is None else solutions_html(len(names), is_complete=is_complete, is_checked=is_checked)
        )


def _slid_joints(robot: RobotModel) -> list[int]:
    return [
        joint
        for joint in range(robot.joint_count)
        if JointType(robot.joint_type[joint]).is_scalar
        and robot.dof_leader[dof := int(robot.joint_qd_start[joint])] == dof
        and robot.dof_active[dof] >= 0
    ]
