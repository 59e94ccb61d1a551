"""From a program to the C++ text of kernels: iterations, steps, and measures of the result."""
