"""The server in one process, or in several: fronts that take requests, and one that solves on each device."""
