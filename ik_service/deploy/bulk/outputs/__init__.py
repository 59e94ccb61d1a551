"""Files of results, one for each part, and their folder."""
