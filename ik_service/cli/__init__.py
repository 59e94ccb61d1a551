"""The command line `ik-service`. Importing it, `--help` and `version` load neither Warp nor the solver."""

import sys

from ik_service.extras import needs


def main() -> None:
    """Run the command line; end with the name of an extra where a package of it is not installed."""
    try:
        with needs("cli", "The command line"):
            from ik_service.cli.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    run()


__all__ = ["main"]
