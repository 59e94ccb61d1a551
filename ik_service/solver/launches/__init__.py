"""Launches of a solve: its arrays, recorded and replayed, its deadline, and the result that is read from them."""
