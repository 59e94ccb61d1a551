"""The table behind the errors: complete, and silent about the inside."""

import ast
from pathlib import Path

import pytest

import ik_service.service
from ik_service.errors import EngineError, KernelCacheError
from ik_service.service.documents.envelope import FAULT_CODES
from ik_service.service.errors.problem_documents import FRAMEWORK_PROBLEMS, PROBLEMS, kind_of
from objectives.errors import IKError, InputError, UnknownNameError
from tests.service.messages import problem

FAILING = {"targets": [{"link": "panda_link3", "positions": [[0.1, 0.1, 0.5]]}]}  # nobody else asks for this link


def all_subclasses(root):
    for child in root.__subclasses__():
        yield child
        yield from all_subclasses(child)


def test_every_error_of_ours_has_a_row():
    above = ("ik_service.cli", "ik_service.integrations", "ik_service.page")  # the service
    ours = {error for error in all_subclasses(IKError) if error.__module__.startswith(("ik_service.", "objectives."))}
    served = {error for error in ours if not error.__module__.startswith(above)}
    assert len(served) >= 10
    assert {error.__name__ for error in served - set(PROBLEMS)} == set()


def test_the_page_names_every_code():
    page = Path(__file__).parents[3].joinpath("docs/http_api.md").read_text()
    codes = {kind.code for kind in (*PROBLEMS.values(), *FRAMEWORK_PROBLEMS.values())} | set(FAULT_CODES.values())
    for module in Path(ik_service.service.__file__).parent.rglob("*.py"):
        calls = [one for one in ast.walk(ast.parse(module.read_text())) if isinstance(one, ast.Call)]
        faults = [one.args[1] for one in calls if getattr(one.func, "id", None) == "faulty_field"]
        codes |= {one.value for one in faults if isinstance(one, ast.Constant)}
    assert "not_unit_quaternion" in codes
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_an_error_takes_the_row_of_its_nearest_class():
    class NewNameError(UnknownNameError):
        pass

    assert kind_of(NewNameError("x")) is PROBLEMS[UnknownNameError]
    assert kind_of(KeyError("x")) is PROBLEMS[Exception]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InputError("what the solver found"), 422, "invalid_value"),
        (EngineError("no engine"), 422, "engine_unavailable"),
        (IKError("/srv/secret/file.py"), 500, "internal_error"),
        (RuntimeError("/srv/secret/file.py"), 500, "internal_error"),
        (MemoryError(), 500, "internal_error"),
        (KernelCacheError("'/srv/secret' cannot be written"), 500, "kernels_unavailable"),
    ],
)
def test_errors_of_the_solver_thread_become_problem_documents(client, monkeypatch, error, status, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(client.app.state.service.pool._runner.solver_cache, "solve_together", fail)
    reply = client.post("/v1/robots/panda/solve", json=FAILING)  # that code cannot be kept is remembered
    problem(reply, status, code)
    assert "secret" not in reply.text
