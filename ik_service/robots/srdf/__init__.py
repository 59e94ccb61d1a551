"""What SRDF files of MoveIt say about a robot: groups of joints with their states and tips, pairs never checked."""
