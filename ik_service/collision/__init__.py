"""Collision: shapes, worlds, spheres of links and distances, in float64 on the host and as generated code on devices.

host: shapes, world, distance_grid, body_spheres, check; covering makes spheres from shapes
device: sphere_arrays, world_arrays and clearance (code for attempts and ticks), collision_data (arrays of one solver)
`solver/verdict` gives verdicts on collision, `control/clearance` limits ticks.
"""
