"""The panel of one visitor: everything that can be clicked, and what each click asks for.

The panel holds no state of the robot: it is told what to show, and calls back with what has been changed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import viser

from ik_service.page.posed_robot import PosedRobot, TargetState
from ik_service.page.solving.questions import ROTATIONS
from ik_service.robots import JointType, RobotModel

OBSTACLES = ("none", "box", "sphere")
UNLIMITED_TURN, UNLIMITED_WAY = np.pi, 1.0
"""Range of the slider of a joint without limits [rad, m]."""
HERE = "this one"


class PanelEvents(Protocol):
    """What a panel calls when something has been changed; all on the event loop, none may block."""

    def robot_chosen(self, name: str) -> None:
        """Another robot is to be shown."""

    def target_changed(self, link: str, **values: Any) -> None:
        """A target has another `position` [m], `free` axes or `is_on`."""

    def joint_changed(self, coordinate: int, value: float) -> None:
        """A coordinate is to have a value [rad or m]."""

    def asked(self, wish: str) -> None:
        """Something is to be done."""


@dataclass(frozen=True)
class JointSlider:
    """The slider of a joint.

    Attributes:
        handle: The slider, in degrees or millimetres.
        coordinate: Its coordinate.
        scale: Units of the slider per unit of the coordinate.
    """

    handle: viser.GuiSliderHandle[float]
    coordinate: int
    scale: float


class Panel:
    """The panel.

    Args:
        gui: Where to put it.
        names: Names of the robots.
        posed: The robot that is shown.
        events: Who is told what has been changed.
        is_dark: Whether it begins dark.
    """

    def __init__(
        self, gui: viser.GuiApi, names: Sequence[str], posed: PosedRobot, events: PanelEvents, *, is_dark: bool
    ) -> None:
        self._gui, self._events, robot = gui, events, posed.robot
        self.robot = gui.add_dropdown("Robot", list(names), initial_value=posed.name)
        _when_chosen(self.robot, events.robot_chosen)
        self.dark = self._checkbox("Dark", "dark", initial=is_dark)
        self.status = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Targets"):
            self.positions = {
                target.link: self._target(target, len(posed.targets)) for target in posed.targets.values()
            }
            self.any_branch = self._checkbox(
                "Any branch", "branch", hint="Off: stay on the branch. On: take whichever start succeeds first."
            )
            self._button("Start again", "restart")
        with tabs.add_tab("Joints"):
            self.sliders = [self._slider(robot, posed, joint) for joint in _slid_joints(robot)]
        with tabs.add_tab("Batch"):
            self._button("Other solutions", "solutions")
            self.solution = gui.add_dropdown("Take", [HERE], disabled=True)
            _when_chosen(self.solution, lambda _: events.asked("pick"))
            self._button("1000 random targets", "random")
            self.random = gui.add_html("")
        self.collision, self.spheres, self.obstacle, self.obstacle_size = self._collision(tabs, robot)
        with tabs.add_tab("Request"):
            self.request = gui.add_html("")

    def _target(self, target: TargetState, count: int) -> viser.GuiVector3Handle:
        link, events = target.link, self._events
        with self._gui.add_folder(link, expand_by_default=count == 1):
            if count > 1:
                is_on = self._gui.add_checkbox("Target", target.is_on)
                _when_changed(is_on, lambda: events.target_changed(link, is_on=is_on.value))
            position = self._gui.add_vector3("Position [m]", (0.0, 0.0, 0.0), step=0.001)
            _when_changed(position, lambda: events.target_changed(link, position=np.array(position.value)))
            boxes = [self._gui.add_checkbox(f"Free about {axis[1]}", axis in target.free) for axis in ROTATIONS]

        def free() -> None:
            chosen = tuple(axis for axis, box in zip(ROTATIONS, boxes, strict=True) if box.value)
            events.target_changed(link, free=chosen)

        for box in boxes:
            _when_changed(box, free)
        return position

    def _slider(self, robot: RobotModel, posed: PosedRobot, joint: int) -> JointSlider:
        dof, coordinate = int(robot.joint_qd_start[joint]), int(robot.joint_q_start[joint])
        is_way = robot.joint_type[joint] == JointType.PRISMATIC
        scale, unit, room = (1e3, "mm", UNLIMITED_WAY) if is_way else (180.0 / np.pi, "°", UNLIMITED_TURN)
        limits = np.array([robot.joint_limit_lower[dof], robot.joint_limit_upper[dof]])
        lower, upper = (10.0 * scale * np.where(np.isfinite(limits), limits, [-room, room])).tolist()
        least, most = math.ceil(lower) / 10.0, math.floor(upper) / 10.0
        value = min(max(round(scale * float(posed.joint_q[coordinate]), 1), least), max(most, least))
        name = f"{robot.joint_names[joint]} [{unit}]"
        slider = self._gui.add_slider(name, least, max(most, least), 0.1, value)
        _when_changed(slider, lambda: self._events.joint_changed(coordinate, slider.value / scale))
        return JointSlider(slider, coordinate, scale)

    def _collision(self, tabs: viser.GuiTabGroupHandle, robot: RobotModel) -> tuple[Any, Any, Any, Any]:
        if robot.collision_model is None:
            return None, None, None, None
        with tabs.add_tab("Collision"):
            kept = self._checkbox("Keep links off each other", "collision", initial=True)
            spheres = self._checkbox("Show spheres and what is closest", "spheres")
            obstacle = self._gui.add_dropdown("Obstacle", list(OBSTACLES))
            size = self._gui.add_slider("Size [mm]", 20.0, 600.0, 10.0, 150.0)
            _when_chosen(obstacle, lambda _: self._events.asked("obstacle"))
            _when_changed(size, lambda: self._events.asked("obstacle"))
        return kept, spheres, obstacle, size

    def _checkbox(
        self, label: str, wish: str, *, initial: bool = False, hint: str | None = None
    ) -> viser.GuiCheckboxHandle:
        box = self._gui.add_checkbox(label, initial, hint=hint)
        _when_changed(box, lambda: self._events.asked(wish))
        return box

    def _button(self, label: str, wish: str) -> None:
        button = self._gui.add_button(label)

        async def clicked(_: object) -> None:
            self._events.asked(wish)

        button.on_click(clicked)

    def show_posed(self, posed: PosedRobot) -> None:
        """Show where joints and targets are."""
        for slider in self.sliders:
            value = slider.scale * float(posed.joint_q[slider.coordinate])
            _show(slider.handle, round(min(max(value, slider.handle.min), slider.handle.max), 2))
        for link, position in self.positions.items():
            _show(position, tuple(np.round(posed.targets[link].pose[:3], 4).tolist()))

    def show_solutions(self, count: int) -> None:
        """Offer solutions to be taken; 0 offers none."""
        self.solution.options = (HERE, *(f"ghost {k + 1}" for k in range(count)))
        _show(self.solution, HERE)
        self.solution.disabled = count == 0


def _slid_joints(robot: RobotModel) -> list[int]:
    """Return the joints of one coordinate that follow no other and are not locked."""
    return [
        joint
        for joint in range(robot.joint_count)
        if JointType(robot.joint_type[joint]).is_scalar
        and robot.dof_leader[dof := int(robot.joint_qd_start[joint])] == dof
        and robot.dof_active[dof] >= 0
    ]


def _show(handle: Any, value: object) -> None:
    """Show a value."""
    handle.value = value  # a checker of types takes it for read-only: viser declares it in a way of its own


def _when_changed(handle: Any, call: Callable[[], None]) -> None:
    """Call when the visitor has changed a value, and not when the page has."""

    async def changed(event: viser.GuiEvent[Any]) -> None:
        if event.client is not None:
            call()

    handle.on_update(changed)


def _when_chosen(handle: Any, call: Callable[[str], None]) -> None:
    _when_changed(handle, lambda: call(handle.value))
