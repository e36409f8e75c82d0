"""The embedded REPL: an nREPL server for the project's own interpreter.

It uses the standard library alone and imports nothing of Codriver, so that any Python 3.8 or later can run it with
nothing to install. Code is evaluated on the main thread, where a signal can interrupt it; the network lives on other
threads, so the server answers while code runs. Dialects: `python`, and `lisp`, which hosts Basilisp.

Beyond nREPL: a failure carries `codriver/error` (type, message, phase, file, line, column, form, trace, locals); the op
`codriver/stacks` gives a dump of all threads; `clone` with `codriver/apart` gives a session with a namespace of its
own; the omissions in printed values of an evaluation with `codriver/keep`, its id, are told as `codriver/cut`, and
`codriver/value` (`evaluation`, `path`, `from`) tells more of such a value; print options called `default-…` yield to
the user's own; modules that an evaluation used and whose files were edited since their load are told, in words, as
`codriver/edited`, a changed working folder as `codriver/folder`, and a declined wish of an application for a REPL of
its own as `codriver/declined`; an evaluation with `codriver/trace`, names or none, tells its calls as `codriver/run`.
Started with `--supervised` it ends with its parent.

Its folders, each of which may import from those before it: `basics`, `python` and `lisp`, `fresh`, `serving`.
The last also serves a REPL within a running application, whose main thread, streams and loop stay its own.

Run `__main__.py`, which loads this package under a private name: user code may have modules of any other. `typing` is
imported for type checkers alone, as it takes longer to load than most of this.

Source: nREPL documentation, "Ops"; BEP 3 for bencode.
"""

declined = 0
"""The times that an application in this process asked for a REPL of its own, counted by `codriver_seam.start_repl`."""
