"""How near to its targets an attempt has to be, read off residuals in float32; success is judged later, in float64."""

import warp as wp

MARGIN = wp.constant(0.999)  # an attempt this close to a tolerance is tried again rather than judged a failure later
# What float32 reaches where an attempt converges: one that is not as near yields to later seeds.
PRECISE_POSITION = wp.constant(1.0e-5)  # [m]
PRECISE_ORIENTATION = wp.constant(1.0e-4)  # [rad]
