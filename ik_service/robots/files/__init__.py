"""Readers of robot files, URDF and MJCF, and of constraints in and beside them; checked and put together."""
