"""Arrays of the problems of a solve: inputs, rows and their weights, support, islands, host and device."""
