"""Files of results, one a part, and the folder that holds them."""
