"""Answers from a service, through the public client; this process solves for uploaded robots."""

from typing import Any

import numpy as np

from ik_service.client import Client, ClientError, ServiceError, SolveResult, UnreachableError
from ik_service.mechanism.transforms import Float64Array
from ik_service.page.local_solving import LocalSolving
from ik_service.page.questions import Answer, PageError, Question, read_answer

BUSY = (429, 503, 504)  # HTTP statuses after which the same request may be answered
WORKERS = 4
COMPILING = "Code for this kind of question is being compiled, once. The page goes on when the code is there."
PATIENCE_S = 30.0  # longest wait for an answer [s]: the first request of a kind waits for its code


class RemoteSolving(LocalSolving):
    """A running service. Its built-in robots are drawn from the models of this installation.

    This process solves for uploaded robots, and runs all calls besides `solve`. PageError if the service does not
    answer, or serves no robot of this installation.
    """

    workers = WORKERS

    def __init__(self, url: str, api_key: str | None = None) -> None:
        super().__init__()
        self.address = url.rstrip("/")
        self._client = Client(url, api_key, timeout_s=PATIENCE_S, retries=0)
        try:
            served = self._client.robots()
        except ClientError as error:
            self.close()
            raise _page_error(self.address, error) from error
        known = self.robots
        self.robots = tuple(one["name"] for one in served if one.get("source") == "built_in" and one["name"] in known)
        if not self.robots:
            raise PageError(f"{self.address} serves none of the built-in robots: {', '.join(sorted(known))}.")

    def solve(self, question: Question) -> Answer:
        """Answer a question; PageError where the service refuses the question or is unreachable."""
        if question.robot in self.files:
            return super().solve(question)
        robot, wants_solutions = self.robot(question.robot), question.options.get("solutions", 1) != 1
        include = ["advice", *(["solutions"] if wants_solutions else [])]
        is_checked = robot.collision_model is not None and question.options.get("collision") != "off"
        include += ["clearance"] if is_checked else []
        try:
            result = self._client.solve(question.robot, targets=question.targets, include=include, **question.fields)
        except ClientError as error:
            raise _page_error(self.address, error) from error
        return read_answer(
            result,
            result.collision_names or (),
            result.clearance_m,
            status=tuple(result.status.tolist()),
            position_error=_per_target(result, "position_error_m", result.position_error_m),
            orientation_error=_per_target(result, "orientation_error_rad", result.orientation_error_rad),
            advice=result.advice[0] if result.advice else "",
            solve_ms=float(result.timing_ms["solve"]),
            ran_on=f"{result.engine} engine on {result.device}, over HTTP",
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        super().close()


def _page_error(address: str, error: ClientError) -> PageError:
    if isinstance(error, UnreachableError):
        return PageError(f"{address} does not answer. The page goes on when it does.", may_pass=True)
    if isinstance(error, ServiceError):
        if error.status in (401, 403):
            hint = "Start the page with the service's API key: IK_SERVICE_API_KEY, or --api-key."
            return PageError(f"{address} asks for a key: {error.detail} {hint}")
        text = COMPILING if error.code == "compiling" else error.detail
        return PageError(text, may_pass=error.status in BUSY)
    return PageError(f"{address} is no such service: {error}")


def _per_target(result: SolveResult, name: str, worst: Any) -> Float64Array:
    """Return errors of each target, shape [n, targets]; a service reports per-target errors only for several."""
    columns = [target[name] for target in result.targets] or [worst]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
