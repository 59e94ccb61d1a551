"""Results: answers verified in float64, the choice among attempts, reports on islands, advice."""
