"""The compiled engine: one generated kernel per island runs the whole solve."""
