"""Generate tests, notebooks and recordings from evaluations, without using a REPL."""
