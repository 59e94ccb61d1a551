"""Readers of robots: URDF, xacro, MJCF, SRDF, Newton's models, files of constraints, spheres, worlds and meshes."""
