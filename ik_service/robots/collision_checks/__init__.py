"""Collision checks in float64 on the host: how far configurations are from contact, and which links are checked."""
