"""The objectives that come with the solver."""
