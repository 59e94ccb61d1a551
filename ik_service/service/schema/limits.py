"""Limits of one HTTP request; they are part of the schema."""

from ik_service.robots.readers.xml_reader import MAX_ATTRIBUTE_LENGTH

MAX_PROBLEM_COUNT = 100_000
MAX_TARGET_COUNT = 32
MAX_OBJECTIVE_COUNT = 32
REQUEST_SEEDS_MAX = 1024
REQUEST_ITERATIONS_MAX = 1000
MAX_ATTEMPT_COUNT = 8_000_000
"""Problems times seeds of one request."""
CHOICE_EFFORT = 4000  # iterations times the square of DOFs of an attempt; a choice may have fewer of larger ones
TRACE_EFFORT = 4_000_000  # seeds times the square of iterations: a trace ends all attempts after each iteration
OBJECTS_OF_AN_ATTEMPT = 32
"""Objects of a world that cost about as much as an attempt: with more of them fewer attempts are allowed."""
OBJECTS_OF_A_GRID = 12
"""Other objects that cost about as much as a grid."""
MAX_SOLUTION_COUNT = 1_000_000
"""Problems times solutions of one request."""
MAX_SENSITIVE_EFFORT = 8192
"""Problems times the square of the robot's active DOFs of one request with derivatives, which then take up to 0.7 s of
the solver: those of a humanoid with a posture take some 20 ms each (`python -m benchmarks.accuracy.derivatives`)."""
MAX_SWITCH_COUNT = 1 << 24
"""Problems times objects of a world, or constraints, of one request in which each problem has its own list of them."""
MAX_LIMIT_COUNT = 1 << 22
"""Problems times active DOFs of a request that has limits of its own: two float64 and a flag each as they are read."""
MAX_VALUE = 1e6
"""Largest magnitude of a position [m], coordinate or weight: its square is far from the largest float32."""
MIN_WEIGHT = 1e-6
"""Smallest weight of an objective: its square is far from 0 in float32."""
MIN_ROW_WEIGHT = 1e-18
"""Smallest weight of a row other than 0: its square is above 0 in float32."""
MAX_RANDOM_SEED = 2**32 - 1
NAME_LENGTH = MAX_ATTRIBUTE_LENGTH
"""Longest name, as in files of robots."""

MAX_ACTIVE_DOFS = 512
"""DOFs of a robot that is put: with so many in a chain it takes some 3 s of a core to make a solver, and the time grows
with their cube (`python -m benchmarks.engines.large_robots`)."""
MAX_LOOP_COUNT = 32
"""Loops of a robot that is put: each has the rows of a target, and kernels take about as long to compile."""

MAX_STREAM_MESSAGE_BYTES = 64 * 1024
MAX_SEQUENCE = 2**53 - 1
"""Largest whole number that every JSON reader holds exactly."""
