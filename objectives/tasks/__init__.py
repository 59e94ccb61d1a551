"""Built-in objectives: poses, directions, planes, loops and wheels, postures, limits, couplings."""
