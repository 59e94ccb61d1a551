"""Measurements that are part of the product: a robot on this machine, and load on a service."""
