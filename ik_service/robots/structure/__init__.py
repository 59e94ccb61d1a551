"""What follows from a robot's joints alone: trees, couplings, names, limits, configurations."""
