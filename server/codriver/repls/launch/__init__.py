"""REPLs found and started: port files, recipes, supervised processes, fresh REPLs of commands."""
