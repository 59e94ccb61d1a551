"""Readers of robots as simulators have them: MJCF files through MuJoCo, and models of Newton."""
