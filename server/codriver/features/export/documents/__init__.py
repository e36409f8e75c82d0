"""Documents generated from evaluations: scripts, tests, comments, notebooks and recordings. Pure: uses no REPL."""
