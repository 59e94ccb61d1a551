"""The objectives of this package: poses, directions, planes, loops and wheels, postures, limits, couplings."""
