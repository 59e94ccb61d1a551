"""Commands about collision: spheres that cover a robot, grids of distances from obstacles."""
