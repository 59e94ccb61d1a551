"""The command line `ik-service`. Import, `--help` and `version` load neither Warp nor the solver."""

import sys

from ik_service.extras import needs


def main() -> None:
    """Run the command line; a missing package ends the program with the name of the extra to install."""
    try:
        with needs("cli", "The command line"):
            from ik_service.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    app()


__all__ = ["main"]
