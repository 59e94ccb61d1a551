"""Readers of robot files: URDF and MJCF, checked and put together."""
