"""Objectives about frames on links: poses, directions, planes, lines and loops."""
