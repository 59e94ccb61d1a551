"""Arrays of the problems of a solve on host and device: targets, starts, limits, partitions into islands."""
