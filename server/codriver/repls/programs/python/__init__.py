"""Programs that run tests in Python and Hy REPLs, in kernels, and in new processes."""
