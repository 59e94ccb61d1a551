"""Batched inverse kinematics on NVIDIA Warp, and a service around it."""
