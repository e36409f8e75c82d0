"""Find and start REPLs, with port files, recipes for commands, and supervised processes."""
