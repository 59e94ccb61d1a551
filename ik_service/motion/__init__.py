"""Paths: all waypoints solved at once, and branches chosen that keep the largest joint change small.

waypoints --one batch--> reachable waypoints; solutions at a few anchors --sweeps--> tracks, warm-started
tracks --per island: dynamic programming over waypoints--> choice --bridges at track changes--> turns --> result

Clips: targets that need not be met are fitted over all frames within limits of speed and acceleration; see `clip`.
"""

from ik_service.motion.result import PathResult

__all__ = ["PathResult"]
