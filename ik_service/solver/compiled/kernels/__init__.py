"""The generated kernels that solve islands: one for the lanes of a CPU, one for the threads of a GPU."""
