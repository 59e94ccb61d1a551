"""Commands about the service: start it, ask it, load it, describe it."""
