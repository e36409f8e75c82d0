"""The worker: an nREPL server that runs in the project's own interpreter.

It uses only the standard library and imports nothing from Codriver, so any Python 3.8 or later can run it without
installing anything. Code is evaluated on the main thread, where a signal can interrupt it. The network is handled by
other threads, so the server answers while code is running. It has the dialects `python` and `lisp`, which is Basilisp.

The following goes beyond nREPL:

- A failure has the field `codriver/error` with its type, message, phase, file, line, column, form, trace and locals.
- `codriver/stacks` dumps the stacks of all threads.
- `clone` with `codriver/apart` creates a session with its own namespace.
- If a request has `codriver/keep`, the id of an evaluation, replies describe in `codriver/cut` what was omitted from
  printed values, and the op `codriver/value` (`evaluation`, `path`, `from`) returns more of them.
- Print options named `default-…` yield to the user's own settings.
- The fields `codriver/edited`, `codriver/folder` and `codriver/declined` of the last reply report modules that the
  evaluation used and whose files were edited since they were loaded, a changed working directory, and a refused
  `start_repl()`.
- An evaluation with `codriver/trace`, which contains names or is empty, returns its calls as `codriver/run`.

With `--supervised`, the worker ends with its parent.

Each subpackage may import only from the preceding ones in this list: `basics`, `python` and `lisp`, `fresh`, `serving`.
The last one also serves a REPL in a running application, whose main thread, streams and event loop are left alone.

Run `__main__.py`, which loads this package under a private name, because user code may have modules of any other name.
`typing` is imported only for type checkers, because loading it takes longer than most of this package.

Source: nREPL documentation, "Ops"; BEP 3 for bencode.
"""

declined = 0
"""The number of calls to `codriver_seam.start_repl` by an application in this process, all of which were refused."""
