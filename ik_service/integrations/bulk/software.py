"""The software that the bytes of results depend on: versions of packages, and the target of compiled code."""

from importlib.metadata import PackageNotFoundError, version

from ik_service.compiler import cpu_target

SOFTWARE = ("ik-service", "warp-lang", "numpy", "pyarrow")
"""Packages that the bytes of a result depend on."""


def code_of(device: str) -> str:
    """Return the target of compiled code on a device; results of equal targets have equal bytes.

    Args:
        device: A device of a solver.
    """
    return "cuda" if device.startswith("cuda") else f"cpu {cpu_target().name}"


def software() -> dict[str, str]:
    """Return the versions of the packages that the bytes of results depend on."""
    found = {}
    for name in SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # pyarrow is optional
            found[name] = "none"
    return found
