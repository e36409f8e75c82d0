"""The seam of an application in a REPL: by which code it is asked, and what comes back."""
