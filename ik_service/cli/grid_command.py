"""`ik-service grid`: the signed distance from a mesh on a grid, for worlds.

file of the mesh -> its solid -> distances at the nodes -> file, and the interpolation error between nodes
"""

import math
from pathlib import Path

import numpy as np

from ik_service.cli.console import output_console
from ik_service.collision.covering import Solid
from ik_service.collision.shapes import IDENTITY_POSE, MeshReference
from ik_service.robots import DistanceGrid, write_grid
from ik_service.robots.readers.mesh_file import read_mesh
from ik_service.robots.readers.mesh_solid import mesh_solid
from objectives.errors import InputError

POINTS = 20_000  # random points at which distances are compared


def print_grid(mesh: Path, output: Path, *, spacing: float, padding: float, scale: float) -> None:
    """Sample a mesh, write the file, and print the interpolation error between the nodes.

    `spacing` is the distance between nodes [m], `padding` the margin around the mesh [m], `scale` the metres in a unit
    of the mesh; the grid has the axes of the mesh. InputError if an option is not allowed, or the mesh is unreadable.
    """
    for name, length in (("spacing", spacing), ("padding", padding), ("scale", scale)):
        if not 0.0 < length < math.inf:
            raise InputError(f"--{name} must be above 0, got {length:g}.")
    solid = mesh_solid(read_mesh(MeshReference(mesh.name, (scale,) * 3, IDENTITY_POSE), mesh))
    grid = DistanceGrid.sampled(solid.signed_distance, solid.lower - padding, solid.upper + padding, spacing)
    write_grid(grid, output)
    errors = 1e3 * grid_errors(grid, solid)
    nodes = " x ".join(map(str, grid.values.shape))
    console = output_console()
    console.print(f"{nodes} nodes, {1e3 * spacing:g} mm apart.", markup=False)
    console.print(
        f"At the surface distances are off by {errors.mean():.2f} mm on average, by {errors.max():.2f} mm at most.",
        markup=False,
        soft_wrap=True,
    )
    console.print(f"Wrote {output}.", markup=False, soft_wrap=True)


def grid_errors(grid: DistanceGrid, solid: Solid) -> np.ndarray:
    """Return how far distances of a grid are off at points of the surface [m], shape [points]."""
    rng = np.random.default_rng(0)
    points = solid.surface[rng.choice(len(solid.surface), min(POINTS, len(solid.surface)), replace=False)]
    return np.asarray(np.abs(grid.signed_distance(points) - solid.signed_distance(points)))
