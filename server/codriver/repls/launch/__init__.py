"""Finding and starting REPLs: port files, recipes for commands, and supervised processes."""
