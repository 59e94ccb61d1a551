"""Measurements that are part of the product: load on a service."""
