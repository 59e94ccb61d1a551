"""A robot as numbers: joints, links, trees, couplings, limits, names; loops and collision spheres as data."""
