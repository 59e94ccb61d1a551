"""Drawings of a robot: its shape from the model alone, and the nodes of the scene that show it."""
