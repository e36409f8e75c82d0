"""Documents generated from evaluations: tests, notebooks and recordings. Pure: uses no REPL."""
