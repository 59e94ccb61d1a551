from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ik_service.cli.app import app


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs a command line in this process and checks its exit code."""

    def invoke(*arguments: Any, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    return invoke
