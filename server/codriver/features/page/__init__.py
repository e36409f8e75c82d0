"""The page: all that passes through the REPLs, for a person with a browser. Imported only when it is asked for."""
