"""The staged engine: any objective, one launch per stage of an iteration."""
