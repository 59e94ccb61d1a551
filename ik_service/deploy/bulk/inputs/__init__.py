"""Files of targets: their columns, read a range of rows at a time."""
