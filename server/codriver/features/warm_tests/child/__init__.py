"""The programs of a warm test process: standard library only, Python 3.10 or later, run by the project's interpreter.

Nothing in this package may be imported by the server. `__main__` is started by its directory; it removes this package
from `sys.modules` before the first request, so that test runs find no trace of it.
"""
