"""Solves whose numbers stay on the device: arrays of a caller in, columns of the result out, nothing by the host."""
