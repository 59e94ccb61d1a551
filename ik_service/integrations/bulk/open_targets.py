"""Opens a file of targets by its suffix."""

import importlib
from collections.abc import Callable
from pathlib import Path

from ik_service.extras import how_to_install
from ik_service.integrations.bulk.npz_targets import NpzTargets
from ik_service.integrations.bulk.target_file import TargetFile
from objectives.errors import InputError


def open_targets(path: str) -> TargetFile:
    """Open a file of targets.

    Args:
        path: A .parquet or .npz file.

    Raises:
        InputError: It cannot be read, or has another suffix.
    """
    kinds: dict[str, Callable[[str], TargetFile]] = {".npz": NpzTargets}
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        require_pyarrow()
        from ik_service.integrations.bulk.parquet_targets import ParquetTargets  # pyarrow is optional

        kinds[".parquet"] = ParquetTargets
    if suffix not in kinds:
        raise InputError(f"Targets '{path}' have the suffix '{suffix}'. Allowed in a bulk job: .parquet, .npz.")
    return kinds[suffix](path)


def require_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        InputError: It is not.
    """
    try:
        importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise InputError(
            f"Parquet needs pyarrow. {how_to_install('bulk')} Without it: --format npz, or files .npz or .csv."
        ) from error
