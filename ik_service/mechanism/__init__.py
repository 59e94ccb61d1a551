"""A robot as numbers: joints, links, trees, couplings, limits and names; kinds of loops and spheres as data."""
