"""The embedded REPL: an nREPL server for the project's own interpreter.

It uses the standard library alone and imports nothing of Codriver, so that any Python 3.8 or later can run it with
nothing to install. Code is evaluated on the main thread, where a signal can interrupt it; the network lives on other
threads, so the server answers while code runs. Dialects: `python`, and `lisp`, which hosts Basilisp.

Beyond nREPL: a failure carries `codriver/error` (type, message, phase, file, line, column, form, trace, locals); the op
`codriver/stacks` gives a dump of all threads; `clone` with `codriver/apart` gives a session with a namespace of its
own; what printing cut of the values of an evaluation that has `codriver/keep`, its id, is told as `codriver/cut`, and
`codriver/value` (`evaluation`, `path`, `from`) tells more of it; print options called `default-…` yield to the user's
own; modules that an evaluation used and whose files were edited since their load are told, in words, as
`codriver/edited`, and the working folder, where it changed that, as `codriver/folder`; that an application's wish for a
REPL of its own was declined here as `codriver/declined`; an evaluation with
`codriver/trace`, names or none, tells the calls that it made as `codriver/run`.
Started with `--supervised` it ends with its parent.

Its folders, of which each may import from those before it: `basics`, `python` and `lisp`, `tries`, `serving`, where a
REPL within a running application is served, too, whose main thread, streams and loop stay its own.

Run `__main__.py`, which loads this package under a private name: user code may have modules of any other. `typing` is
imported for type checkers alone, as it takes longer to load than most of this.

Source: nREPL documentation, "Ops"; BEP 3 for bencode.
"""

declined = 0
"""How often an application in this process asked for a REPL of its own, as `codriver_seam.start_repl` counts."""
