"""Closed chains on the host: how far loops are open, closing them, motions that keep them closed, and their rows."""
