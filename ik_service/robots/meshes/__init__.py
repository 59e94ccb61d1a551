"""Meshes of links: their files, distances from them, and how well spheres cover a link."""
