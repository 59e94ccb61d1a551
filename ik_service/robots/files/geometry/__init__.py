"""Readers of what links look like: shapes in URDF and MJCF files, files of spheres."""
