"""Documents made of what was evaluated: scripts, tests, comments, notebooks, recordings. Pure: no REPL is here."""
