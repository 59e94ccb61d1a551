"""From documents to checked arrays for the solver, and from results to documents."""
