"""From a program to the text of its kernels: iterations, steps, and the measurements that choose among texts."""
