"""What can touch: shapes, spheres that cover the links of a robot, pairs of links, and a world of obstacles."""
