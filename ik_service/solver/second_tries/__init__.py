"""Second tries for unsolved problems: loops opened first, islands combined anew, contacts repaired, targets alone."""
