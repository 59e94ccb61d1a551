"""The measurement that is part of the product: a robot on this machine."""
