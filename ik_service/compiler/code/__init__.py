"""From a program to the text of its kernels, and the measurements that choose among texts."""
