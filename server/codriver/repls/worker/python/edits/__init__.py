"""Apply the changes in an edited file to its loaded module, and run as little as possible."""
