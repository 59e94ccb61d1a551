"""The command line `ik-service`. Importing it, `--help` and `version` load neither Warp nor the solver."""

from ik_service.cli.app import main

__all__ = ["main"]
