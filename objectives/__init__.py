"""Objectives of inverse kinematics: what a configuration should achieve."""
