"""Joint limits of a solve: the robot's, or narrower ones that a caller asks for, problem by problem."""
