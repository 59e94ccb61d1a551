"""Robots made from a robot: joints locked, or a part of its tree."""
