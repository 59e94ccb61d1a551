"""Objectives about frames on links: poses, directions, planes, lines, loops and wheels."""
