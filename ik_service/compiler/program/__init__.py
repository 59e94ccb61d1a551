"""From rows and joints to the program of one island: scalar expressions, no text."""
