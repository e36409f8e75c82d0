"""Programs that run in a warm test process, with the project's interpreter.

They use only the standard library and require Python 3.10 or later. The server must not import this package. `__main__`
is started from its directory, and removes the package from `sys.modules` before the first request, so that test runs do
not see it.
"""
