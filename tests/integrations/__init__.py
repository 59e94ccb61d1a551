"""Of this package, so that the cluster its tests share ends with them."""
