"""The halves of features that run in the REPL: a module each, found by `..basics.features`. Each may be missing."""
