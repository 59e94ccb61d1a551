"""What is asked of a solver and what comes back, free of any wire format."""
