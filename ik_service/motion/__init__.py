"""Paths: all waypoints solved at once, and the branch chosen that keeps the largest change of a joint small.

waypoints --one batch--> which can be reached; solutions at a few anchors --sweeps--> tracks, warm-started
tracks --per island: dynamic programming over waypoints--> choice --bridges where tracks change--> turns --> result
"""

from ik_service.motion.result import PathResult

__all__ = ["PathResult"]
