"""Clearance as a limit of a tick: links come no nearer to each other and to objects than a margin."""
