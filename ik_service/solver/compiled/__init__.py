"""The compiled engine: one generated kernel per island runs the whole solve, in SIMD lanes or in threads of a GPU."""
