"""Gradients of answers by tensors of PyTorch that stay on the device, where PyTorch is installed."""

import importlib
import importlib.util
from typing import Any

import numpy as np
import warp as wp

import ik_service
from benchmarks.gpu.rates import timed
from benchmarks.problems.compared_robots import PANDA
from benchmarks.problems.many_arms import HandProblems
from benchmarks.report import Report

BATCHES = (1, 1000, 10_000, 100_000)
COMPARED = 1000
SHARE = 0.95  # of them; near singular poses gradients are large, and change as much
SAME = 1e-3  # of the largest entry of a gradient: answers in float32 differ by rounding between devices


def show_gradients(report: Report, device: wp.Device, problems: HandProblems, seconds: float) -> None:
    """Report how long a solve with its backward pass takes, and whether the gradient is that of the CPU.

    Args:
        report: Where figures go.
        device: The device.
        problems: Targets of a Panda's hand.
        seconds: Time for the calls of each batch [s].
    """
    report.section(
        "Gradients",
        "Panda, float64 tensors of PyTorch on the device: a solve, and a solve with the gradient of the squared "
        "configurations by all targets; wall time, median.",
    )
    if not device.is_cuda or importlib.util.find_spec("torch") is None:
        report.line("Not measured: PyTorch is not installed, or there is no card.")
        return
    torch = importlib.import_module("torch")
    solve = {name: _solver(name) for name in ("cpu", str(device))}
    report.table("batch", "solve, µs", "with its gradient, µs", "targets/s", "answers with a gradient")
    for batch in BATCHES:
        given = _tensors(torch, problems, batch, str(device))

        def plain(given: Any = given) -> None:
            with torch.no_grad():
                solve[str(device)](*given)

        def derived(given: Any = given) -> None:
            _gradient(torch, solve[str(device)], given)

        medians = [float(np.median(timed(device, run, seconds))) for run in (plain, derived)]
        has = _gradient(torch, solve[str(device)], given)[2]
        cells = [f"{1e6 * median:.0f}" for median in medians]
        report.row(batch, *cells, f"{batch / medians[1]:,.0f}", f"{float(has.float().mean()):.2%}")
    own, cpu = (
        _gradient(torch, solve[name], _tensors(torch, problems, COMPARED, name)) for name in (str(device), "cpu")
    )
    same = (own[0].cpu() - cpu[0]).abs().amax(dim=1) < 1e-4  # the same answer
    apart = max(
        float(((a.cpu() - b).abs().amax(dim=1) / b.abs().amax(dim=1))[same].quantile(SHARE))
        for a, b in zip(own[1], cpu[1], strict=True)
    )
    share = float(same.float().mean())
    report.line("")
    report.claim(
        f"gradients beside the CPU's, {SHARE:.0%} of the {share:.1%} of {COMPARED} with the same answers",
        f"{apart:.1e}",
        f"{SAME:g}",
        apart <= SAME and share > 0.9,
    )


def _solver(device: str) -> Any:
    of_torch: Any = importlib.import_module("ik_service.torch")
    return of_torch.TorchSolver(ik_service.IKSolver(PANDA.robot, list(PANDA.links), device=device))


def _tensors(torch: Any, problems: HandProblems, batch: int, device: str) -> list[Any]:
    few = problems.first(batch)
    return [
        torch.tensor(np.resize(one, (batch, one.shape[1])), device=device)
        for one in (few.positions[:, 0], few.orientations_xyzw[:, 0])
    ]


def _gradient(torch: Any, solve: Any, given: list[Any]) -> tuple[Any, list[Any], Any]:
    """Answers, gradients of their squares by the targets, and which have one."""
    inputs = [one.detach().requires_grad_() for one in given]
    answer = solve(*inputs)
    answer.joint_q.square().sum().backward()
    return answer.joint_q.detach(), [one.grad for one in inputs], answer.is_differentiable
