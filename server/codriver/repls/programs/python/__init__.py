"""The program that runs tests in Python and Hy REPLs, in kernels, and in new processes."""
