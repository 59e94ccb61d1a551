"""The command line `ik-service`. Import, `--help` and `version` load neither Warp nor the solver."""


def main() -> None:
    """Run the command line."""
    from ik_service.cli.app import app

    app()


__all__ = ["main"]
