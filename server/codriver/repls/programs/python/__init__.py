"""The program that runs the tests of a Python REPL, also of Hy's and of kernels, and in a new process."""
