"""Compiled kernels: the cache on disk and who may write it, loading and unloading, the lock of a device."""
