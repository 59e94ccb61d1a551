"""An objective as a user writes it in five minutes: residuals in a kernel of its own, without derivatives."""

import warp as wp

from objectives import IKObjective


@wp.kernel
def _distance(
    body_q: wp.array2d[wp.transform],
    body: int,
    start_idx: int,
    points: wp.array[wp.vec3],
    problem_idx: wp.array[wp.int32],
    residuals: wp.array2d[float],
):
    i = wp.tid()
    offset = wp.transform_get_translation(body_q[i, body]) - points[problem_idx[i]]
    for k in range(3):
        residuals[i, start_idx + k] = offset[k]


class QuickObjective(IKObjective):
    """What a user writes in five minutes: a size and residuals."""

    def __init__(self, body, points):
        self.body, self.points = body, wp.array(points, dtype=wp.vec3, device="cpu")

    def residual_dim(self):
        return 3

    def compute_residuals(self, body_q, joint_q, model, residuals, start_idx, problem_idx):
        inputs = [body_q, self.body, start_idx, self.points, problem_idx]
        wp.launch(_distance, dim=body_q.shape[0], inputs=inputs, outputs=[residuals], device=body_q.device)
