"""Levels of the rows of a tick: loops that come before all others, and rows that yield to targets."""
