"""Documents made of evaluations: scripts, tests, comments, notebooks, recordings. Pure: no REPL is here."""
