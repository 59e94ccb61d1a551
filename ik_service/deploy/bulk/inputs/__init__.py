"""Files of targets, read in ranges of rows."""
