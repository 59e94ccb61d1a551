"""Clips that are fitted: limits in every frame, held links, and answers that depend on the data alone."""

import numpy as np
import pytest

from benchmarks.problems.clips import DT, FEET, LINKS, motion
from ik_service import IKStatus, Target
from ik_service.motion.clip_limits import ClipLimits
from ik_service.motion.held_links import runs
from ik_service.motion.result import RateLimits
from ik_service.robots import load_urdf
from objectives import IKObjectivePosture, InputError
from objectives.errors import UnknownNameError
from tests.solver.conftest import bare_robot, cpu_solver, poses_of

FRAMES = 91
HALF = 0.5  # of the speeds of the model
FREE = 7  # coordinates of the floating base
ROUNDING = 1.0 + 1e-9


@pytest.fixture(scope="module")
def humanoid():
    return bare_robot("humanoid")


@pytest.fixture(scope="module")
def solver(humanoid):
    weights = motion("walk", 1).row_weights
    return cpu_solver(humanoid, [Target(link, row_weights=own) for link, own in zip(LINKS, weights, strict=True)])


def fit(solver, walk, **given):
    speeds = HALF * np.asarray(solver.robot.joint_velocity_limit)
    return solver.fit_clip(walk.positions, walk.orientations_xyzw, DT, **({"velocity": speeds} | given))


def sway(humanoid, frames=FRAMES):
    """Targets of a motion that the humanoid can follow."""
    time = np.arange(frames)[:, None] * DT
    joint_q = np.tile(humanoid.mid_joint_q, (frames, 1))
    joint_q[:, FREE:] += 0.2 * np.sin(2.0 * time + np.arange(joint_q.shape[1] - FREE))
    joint_q[:, :3] += 0.3 * time
    joint_q[:, FREE:] = np.clip(joint_q[:, FREE:], humanoid.joint_limit_lower[6:], humanoid.joint_limit_upper[6:])
    return poses_of(humanoid, joint_q, list(LINKS))


def require_limits(robot, clip, speed, acceleration=np.inf, before=None):
    joints = clip.joint_q[:, FREE:] if before is None else np.vstack([before[FREE:], clip.joint_q[:, FREE:]])
    assert (joints >= robot.joint_limit_lower[6:] - 1e-12).all()
    assert (joints <= robot.joint_limit_upper[6:] + 1e-12).all()
    step = np.diff(joints, axis=0)
    assert (np.abs(step) <= speed * DT * ROUNDING).all()
    bend = np.diff(step, axis=0) if before is None else np.diff(step, axis=0, prepend=np.zeros((1, step.shape[1])))
    assert (np.abs(bend) <= acceleration * DT**2 * ROUNDING).all()
    for over in (clip.over_velocity, clip.over_acceleration):  # rotations of the base have no limits, and are told
        assert not np.delete(over, [3, 4, 5], axis=1).any()


@pytest.mark.parametrize("kind", ["walk", "turn", "sit"])
@pytest.mark.parametrize("acceleration", [None, 60.0])
def test_every_frame_keeps_all_limits(humanoid, solver, kind, acceleration):
    walk = motion(kind, FRAMES)
    clip = fit(solver, walk, acceleration=acceleration)
    speed = HALF * np.asarray(humanoid.joint_velocity_limit)[6:]
    require_limits(humanoid, clip, speed, np.inf if acceleration is None else acceleration)
    step = np.diff(clip.joint_q[:, FREE:], axis=0)
    np.testing.assert_allclose(clip.joint_qd[1:, 6:], step / DT, atol=1e-9)
    assert (clip.joint_qd[0] == 0.0).all()
    position, _ = poses_of(humanoid, clip.joint_q, list(LINKS))
    np.testing.assert_allclose(clip.position_error, np.linalg.norm(position - walk.positions, axis=2), atol=1e-5)
    assert clip.position_error.mean() < 0.05


def test_a_motion_that_can_be_followed_is_followed(humanoid, solver):
    clip = solver.fit_clip(*sway(humanoid), DT, smoothness=0.1)
    assert clip.position_error.max() < 3e-3
    assert (clip.status != IKStatus.UNSETTLED).all()
    require_limits(humanoid, clip, np.asarray(humanoid.joint_velocity_limit)[6:])


@pytest.mark.parametrize(
    ("name", "link", "engine"),
    [("panda", "panda_hand", "compiled"), ("ur5e", "tool0", "compiled"), ("panda", "panda_hand", "staged")],
)
def test_an_arm_changes_no_branch_on_a_motion_that_it_can_follow(name, link, engine):
    robot = bare_robot(name)
    rng, time = np.random.default_rng(3), 0.02 * np.arange(150)[:, None]
    middle = 0.5 * (robot.joint_limit_lower + robot.joint_limit_upper)
    width = 0.3 * (robot.joint_limit_upper - robot.joint_limit_lower)
    rate = np.minimum(0.4 * np.asarray(robot.joint_velocity_limit) / width, 2.0)
    joint_q = middle + width * np.sin(rate * time + rng.uniform(0.0, 6.0, len(width)))
    clip = cpu_solver(robot, [link], engine=engine).fit_clip(*poses_of(robot, joint_q, link), 0.02)
    assert clip.position_error.max() < 1e-3
    assert clip.orientation_error.max() < 1e-2
    assert not clip.over_velocity.any()


def test_a_wheel_turns_on_and_a_locked_base_stays(humanoid):
    wheel = load_urdf(
        '<robot name="wheel"><link name="axle"/><link name="rim"/><joint name="turn" type="continuous">'
        '<parent link="axle"/><child link="rim"/><axis xyz="0 0 1"/><limit effort="1" velocity="10"/></joint></robot>'
    )
    angle = 0.1 * np.arange(150)
    turned = np.column_stack([0.0 * angle, 0.0 * angle, np.sin(angle / 2.0), np.cos(angle / 2.0)])
    clip = cpu_solver(wheel, ["rim"]).fit_clip(None, turned, 0.02)
    np.testing.assert_allclose(clip.joint_q[:, 0] - clip.joint_q[0, 0], angle, atol=1e-3)
    walk = motion("walk", 6)
    held = humanoid.lock({"floating_base": humanoid.mid_joint_q[:FREE].tolist()})
    clip = cpu_solver(held, LINKS).fit_clip(walk.positions, walk.orientations_xyzw, DT)
    np.testing.assert_array_equal(clip.joint_q[:, :FREE], np.tile(humanoid.mid_joint_q[:FREE], (6, 1)))


def test_more_freedom_costs_less_and_more_smoothness_accelerates_less(solver):
    walk = motion("walk", FRAMES)
    cost = [fit(solver, walk, velocity=speed).cost.mean() for speed in (1.0, 3.0, 10.0)]
    assert cost[0] > cost[1] > cost[2]
    rms = [
        np.square(np.diff(fit(solver, walk, smoothness=k).joint_q[:, FREE:], n=2, axis=0)).mean() for k in (1.0, 20.0)
    ]
    assert rms[1] < 0.8 * rms[0]


@pytest.mark.parametrize("given", [{}, {"acceleration": 60.0, "smoothness": 2.0}])
def test_answers_depend_on_the_data_alone(humanoid, solver, given):
    walks = [motion("walk", 401), motion("sit", FRAMES, seed=1)]  # enough frames for two threads
    each = [(one.positions, one.orientations_xyzw) for one in walks]
    each.insert(1, sway(humanoid))  # beside clips that cannot be met
    given = {"velocity": HALF * np.asarray(humanoid.joint_velocity_limit), **given}
    alone = [solver.fit_clip(*one, DT, **given) for one in each]
    weights = walks[0].row_weights
    threads = cpu_solver(
        humanoid, [Target(link, row_weights=own) for link, own in zip(LINKS, weights, strict=True)], threads=2
    )
    positions, orientations = (np.concatenate(parts) for parts in zip(*each, strict=True))
    joined = threads.fit_clip(positions, orientations, DT, clip_start=[0, 401, 401 + FRAMES], **given)
    for name in ("joint_q", "joint_qd", "cost", "status"):
        assert getattr(joined, name).tobytes() == b"".join(getattr(one, name).tobytes() for one in alone), name
    again = solver.fit_clip(*each[0], DT, **given)
    assert again.joint_q.tobytes() == alone[0].joint_q.tobytes()


def test_held_feet_stand(humanoid, solver):
    walk = motion("walk", FRAMES)
    free, held = fit(solver, walk), fit(solver, walk, held=walk.planted, plane=(0.0, 0.0, 2.0, 0.0))
    assert held.held_links == FEET
    told = held.explain()
    assert f"blocked_by_limits {held.status_names.count('blocked_by_limits')}" in told
    assert f"'{FEET[0]}' drifts by up to {1e3 * np.nanmax(held.held_drift[:, 0]):.3g} mm while held" in told
    assert f"largest cost in frames {int(held.cost.argmax())}," in told
    blocked = int(np.flatnonzero((held.active_limits == 2).any(axis=1))[0])
    joint = next(name for name, kind in held.blocking(blocked).items() if kind == "speed")
    assert f"'{joint}' by its limit of speed" in held.explain(blocked)
    beside = np.abs(held.joint_qd[blocked : blocked + 2, held.dof_names.index(joint)]).max()
    assert beside == pytest.approx(humanoid.joint_velocity_limit[humanoid.dof_names.index(joint)] * HALF, rel=1e-4)
    position, _ = poses_of(humanoid, held.joint_q, list(FEET))
    loose, _ = poses_of(humanoid, free.joint_q, list(FEET))
    clip = np.zeros(FRAMES, np.intp)
    for k, foot in enumerate(FEET):
        mask = walk.planted[foot]
        assert np.isnan(held.held_drift[~mask, k]).all()
        assert np.nanmax(held.held_drift[:, k]) < 2e-3
        assert np.abs(position[mask, k, 2]).max() < 2e-3  # in the plane
        for first, end in runs(mask, clip):
            spread = [np.ptp(one[first:end, k, :2], axis=0).max() for one in (position, loose)]
            assert spread[0] < 4e-3
            if end - first > 5:
                assert spread[0] < spread[1]


def test_the_robot_starts_where_it_stands(humanoid, solver):
    walk, first = motion("walk", FRAMES), humanoid.mid_joint_q.copy()
    first[FREE:] = humanoid.joint_limit_lower[6:]
    speed = HALF * np.asarray(humanoid.joint_velocity_limit)[6:]
    clip = fit(solver, walk, first_joint_q=first, acceleration=60.0)
    require_limits(humanoid, clip, speed, 60.0, before=first)


def test_a_locked_joint_stays_where_it_is_in_float64():
    robot = bare_robot("panda").lock({"panda_joint1": 2.8973})  # its limit, which float32 rounds up
    poses = poses_of(robot, np.tile(robot.mid_joint_q, (3, 1)), ["panda_hand"])
    clip = cpu_solver(robot, ["panda_hand"]).fit_clip(*poses, DT)
    assert (clip.joint_q[:, 0] == 2.8973).all()


def test_one_frame_is_a_clip(solver):
    walk = motion("walk", 1)
    clip = fit(solver, walk)
    assert len(clip) == 1
    assert (clip.joint_qd == 0.0).all()
    assert repr(clip).startswith("<ClipResult: ")


def test_weights_of_frames_say_which_targets_matter(solver):
    walk = motion("sit", FRAMES)
    weights = np.tile(walk.row_weights, (FRAMES, 1, 1))
    hand = LINKS.index("left_hand")
    weights[FRAMES // 2 :, hand, :3] = 30.0
    errors = [fit(solver, walk, row_weights=one).position_error[:, hand] for one in (walk.row_weights, weights)]
    late = slice(FRAMES // 2 + 5, None)
    assert errors[1][late].mean() < 0.5 * errors[0][late].mean()


def test_kept_clips_stop_before_their_limits():
    robot = bare_robot("panda")
    rates = RateLimits.read(robot, 0.05, 2.0, 8.0)
    limits = ClipLimits.of(robot, rates)
    rng = np.random.default_rng(0)
    wanted = rng.uniform(2.0 * robot.joint_limit_lower, 2.0 * robot.joint_limit_upper, (400, 7))
    begins = np.array([0, 150])
    for first in (None, robot.mid_joint_q):
        kept = limits.kept(wanted, begins, first)
        assert (kept >= robot.joint_limit_lower).all()
        assert (kept <= robot.joint_limit_upper).all()
        for own in (kept[:150], kept[150:]):
            points = own if first is None else np.vstack([first, first, own])  # from rest
            step, bend = np.diff(points, axis=0), np.diff(points, n=2, axis=0)
            assert (np.abs(step) <= 2.0 * 0.05 * (1.0 + 1e-6)).all()
            assert (np.abs(bend) <= 8.0 * 0.05**2 * (1.0 + 1e-6)).all()
    still = np.tile(robot.mid_joint_q, (400, 1))
    np.testing.assert_allclose(limits.kept(still, begins, None), still)


REFUSED = [
    ({"dt": 0.0}, "dt is 0.0. Allowed: above 0 s."),
    ({"dt": 1e300}, "dt is 1e+300. Allowed: 1e-06 to 1e+06 s."),
    ({"clip_start": [0, 2, 2]}, "clip_start must be whole numbers that rise from 0"),
    ({"clip_start": [1]}, "clip_start must be whole numbers that rise from 0"),
    ({"clip_start": np.array([0, 2, 1], np.uint32)}, "clip_start must be whole numbers that rise from 0"),
    ({"held": {"left_foot": [True]}}, "held['left_foot'] is bool of shape [1]. Allowed: booleans [4]"),
    ({"plane": (0.0, 0.0, 0.0, 1.0)}, "plane must be (nx, ny, nz, distance)"),
    ({"smoothness": -1.0}, "smoothness is -1.0. Allowed: a number, 0 or more."),
    ({"row_weights": np.ones((2, 6))}, "row_weights has shape [2, 6]. Allowed: [7, 6] or [4, 7, 6]."),
    ({"velocity": 0.0}, "velocity is 0 for a joint"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[message[:20] for _, message in REFUSED])
def test_bad_arguments_are_refused(solver, given, message):
    walk = motion("walk", 4)
    with pytest.raises(InputError) as caught:
        solver.fit_clip(walk.positions, walk.orientations_xyzw, **({"dt": DT} | given))
    assert message in str(caught.value)


def test_faulty_frames_links_and_solvers_are_refused(humanoid, solver):
    walk = motion("walk", 4)
    with pytest.raises(UnknownNameError, match="no target is on link 'left_toe'"):
        fit(solver, walk, held={"left_toe": np.ones(4, bool)})
    walk.positions[2, 1, 0] = np.nan
    with pytest.raises(InputError, match=r"positions\[2, 1, 0\] is nan"):
        fit(solver, walk)
    with pytest.raises(InputError, match="without objectives"):
        cpu_solver(humanoid, ["head"], objectives=[IKObjectivePosture(humanoid.mid_joint_q)]).fit_clip(
            walk.positions[:, -1], None, DT
        )
