"""Commands about a robot: what it is made of, its islands, its speed, its kernels, its C code."""
