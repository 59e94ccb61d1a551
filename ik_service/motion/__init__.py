"""Paths: motions within speed limits through poses, with as few changes of configuration as are found.

waypoints, solved alone -> per group of joints: several solutions of the first, carried along in tracks (`tracks`)
-> the track that gets farthest; where all end, a graph of sampled solutions (`roadmap`), else a break (`pieces`)
-> the waypoints between, smoothed within the limits (`filling`) -> turns of joints (`turns`) -> result

Clips: targets that need not be met are fitted over all frames within limits of speed and acceleration; see `clip`.
"""

from ik_service.motion.result import PathResult

__all__ = ["PathResult"]
