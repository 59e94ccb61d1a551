"""Two Pandas on one base that hold an object: a weld between their hands, which the robot closes as a loop."""

import numpy as np

from ik_service.robots import LoopConstraint, RobotModel

LEFT, RIGHT = "left_panda_hand", "right_panda_hand"
HELD = (0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0)  # the right hand in the left one's frame
NEAR = np.array([-0.2483, -0.3281, 0.1092, -2.1921, -1.5796, 1.7196, -0.0944])
NEAR = np.concatenate([NEAR, [0.2485, -0.3281, -0.1093, -2.1921, 1.5796, 1.7197, 1.6652]])
"""A configuration in which they nearly hold it."""


def held_object(arms: RobotModel) -> RobotModel:
    """Return the built-in `dual_panda` with the object."""
    return arms.with_loops([LoopConstraint("object", "weld", RIGHT, LEFT, reference_offset=HELD)])
