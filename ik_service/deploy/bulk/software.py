"""What the bytes of a result depend on besides the job: versions of packages, and the code that is compiled."""

from importlib.metadata import PackageNotFoundError, version

from ik_service.compiler import cpu_target

SOFTWARE = ("ik-service", "warp-lang", "numpy", "pyarrow")
"""Packages that the bytes of a result depend on."""


def code_of(device: str) -> str:
    """Return what kernels for a device are compiled for: answers of one kind of code are equal to the byte.

    Args:
        device: As a solver takes it.
    """
    return "cuda" if device.startswith("cuda") else f"cpu {cpu_target().name}"


def software() -> dict[str, str]:
    """Return the versions of what the bytes of results depend on."""
    found = {}
    for name in SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # pyarrow, where all is npz
            found[name] = "none"
    return found
