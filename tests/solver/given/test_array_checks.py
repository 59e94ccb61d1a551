"""Arrays that a GPU cannot reach are told before a kernel of an objective works on them; no card is needed here."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import warp as wp

from ik_service.solver.rows.blocks import BatchState, Rows, RowTapes
from objectives import IKJacobianType, IKObjective, ObjectiveError

RELAXED, CHECKED, STRICT = wp.config.LaunchArrayAccessMode
CARD = SimpleNamespace(is_cuda=True)


class Watched(IKObjective):
    """Notes in which mode its hooks run, and fails as Warp does."""

    def __init__(self, error=None):
        self.modes, self.error = [], error

    def residual_dim(self):
        return 1

    def compute_residuals(self, *arguments):
        self.modes.append(wp.config.launch_array_access_mode)
        if self.error is not None:
            raise self.error

    def compute_jacobian_autodiff(self, *arguments):
        self.modes.append(wp.config.launch_array_access_mode)


def evaluate(objective, device, robot):
    """Run the hooks of an objective as an engine on that device does."""
    model = robot.on_device("cpu")
    rows = Rows(model, [], [objective], IKJacobianType.AUTODIFF)
    index = wp.zeros(1, dtype=wp.int32, device="cpu")
    poses = BatchState.allocate(model, 1, 1, index, requires_grad=False)
    tapes = RowTapes(rows, poses)
    tapes._step = SimpleNamespace(record=lambda *_: None, tape=SimpleNamespace(zero=lambda: None), dq_dof=None)
    rows.model = replace(model, device=device)
    rows._compute_blocks(poses)
    jacobian = wp.zeros((1, 1, model.joint_dof_count), dtype=float, device="cpu")
    twists = wp.zeros((1, model.joint_dof_count), dtype=wp.spatial_vector, device="cpu")
    rows._clear = lambda jacobian: None
    rows.compute_jacobian(poses, twists, jacobian, tapes)
    return objective.modes


def test_hooks_are_checked_on_a_card_and_an_application_that_is_stricter_stays_so(panda, monkeypatch):
    assert evaluate(Watched(), CARD, panda) == [CHECKED, CHECKED]
    assert wp.config.launch_array_access_mode == RELAXED
    assert evaluate(Watched(), wp.get_device("cpu"), panda) == [RELAXED, RELAXED]
    monkeypatch.setattr(wp.config, "launch_array_access_mode", STRICT)
    assert evaluate(Watched(), CARD, panda) == [STRICT, STRICT]


def test_what_warp_says_names_the_objective(panda):
    with pytest.raises(ObjectiveError, match="Watched: argument 'targets' is on device=cpu"):
        evaluate(Watched(RuntimeError("argument 'targets' is on device=cpu")), CARD, panda)
    assert wp.config.launch_array_access_mode == RELAXED
