"""Clearance as a limit of a tick: links keep a margin from each other and from objects."""
