"""Bounds on the numbers of a robot: what is computed from them stays within the range of float32.

`arrays` checks them whenever a model is made, from a file or from another model; `files.mimics` checks what a chain of
followers multiplies up.
"""

UNBOUNDED = 1e6
"""A position limit of this size [m or rad] or more is a way of saying that there is none."""
MAX_NUMBER = 1e6
"""Largest number in an origin [m or rad], a coupling, a locked value or a mass [kg]; what is computed from such numbers
is far from overflow in float32, and millimetres are lost before."""
UNBOUNDED_RATE = 1e9
"""A velocity or effort of this size or more is a way of saying that there is no limit."""
MAX_POSITION = 1e9
"""Largest coordinate of a frame in its body [m], all fixed joints and added frames on the way summed up."""
