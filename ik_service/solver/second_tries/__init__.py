"""Second tries for unsolved problems: loops opened, new combinations of islands, contacts repaired, targets alone."""
