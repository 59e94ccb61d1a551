"""Codes of kernels: phases and endings of attempts, and the integer settings of a solve."""

import warp as wp

from ik_service.solver.lm.status import IKStatus

# Phases of an island in a slot: RUNNING, the IKStatus (or STATIONARY) with which its attempt has just ended, or:
RUNNING = wp.constant(-1)
CANCELLED = wp.constant(-2)  # a lower seed of its problem has succeeded
IDLE = wp.constant(-3)  # no attempt

CONVERGED = wp.constant(int(IKStatus.CONVERGED))
STALLED = wp.constant(int(IKStatus.STALLED))
MAX_ITERATIONS = wp.constant(int(IKStatus.MAX_ITERATIONS))
DEADLINE = wp.constant(int(IKStatus.DEADLINE))
BLOCKED_BY_LIMITS = wp.constant(int(IKStatus.BLOCKED_BY_LIMITS))
INVALID = wp.constant(int(IKStatus.INVALID))
LOOP_OPEN = wp.constant(int(IKStatus.LOOP_OPEN))
BLOCKED_BY_COLLISION = wp.constant(int(IKStatus.BLOCKED_BY_COLLISION))
UNREACHABLE = wp.constant(int(IKStatus.UNREACHABLE))
NO_TARGET = wp.constant(2)  # value of `met` for an island without pose targets, judged by the gradient test
STATIONARY = wp.constant(len(IKStatus))  # passed the gradient test; becomes CONVERGED or STALLED in the result

# Proofs that the targets of an island are out of reach, or blocked; 0 for none.
PROOF_BY_SHELL = wp.constant(1)
PROOF_BY_INTERVALS = wp.constant(2)
PROOF_BY_SEARCH = wp.constant(3)
PROOF_BY_CONTACT = wp.constant(4)  # blocked by an object

# Entries of the integer settings of a solve, on the device so that a recorded graph reads new values.
PROBLEM_COUNT = wp.constant(0)
SEEDS = wp.constant(1)
ITERATIONS = wp.constant(2)
HAS_START = wp.constant(3)
RANDOM_SEED = wp.constant(4)
KEEP_ALL = wp.constant(5)  # 1: every attempt has an answer of its own, at line problem * seeds + seed
FIRST_FAILURE = wp.constant(6)  # 1: among failed attempts the first seed wins, else the least cost
STOP = wp.constant(7)  # 1: no attempt may begin
SAMPLER = wp.constant(8)  # a sampler, see below
NOISE_BITS = wp.constant(9)  # standard deviation of the sampler "gauss", a float32 by its bits
TRIES_ALL = wp.constant(10)  # 1: all seeds are tried, because the caller sets their number
BRANCHES = wp.constant(11)  # 1: branches in closed form are starts, too
WANTS_SUCCESS = wp.constant(12)  # 1: a target that is proven out of reach needs no attempt
SETTINGS_COUNT = 13

# Samplers of start configurations.
ROBERTS = wp.constant(0)
UNIFORM = wp.constant(1)
GAUSS = wp.constant(2)
BRANCHED_SAMPLERS = ("roberts", "uniform")  # through the whole ranges: branches come before their draws
SAMPLERS = {"roberts": int(ROBERTS), "uniform": int(UNIFORM), "gauss": int(GAUSS), "none": int(ROBERTS)}
