"""Read, balance and edit Lisp source code.

Nothing in this package does I/O or runs the code that it reads.
"""
