"""Compiled kernels: the cache on disk and its trusted writers, loading and unloading, the lock of a device."""
