"""Kinematics in float64 on the host: poses, tangents, masses."""
