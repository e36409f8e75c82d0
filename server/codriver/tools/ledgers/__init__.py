"""Records that exist for as long as their server: callers' code and files, and notes that callers received."""
