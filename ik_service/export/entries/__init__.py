"""The functions that an export has, with their examples."""
