"""Pictures for people: had of the log, saved, and shown in a terminal."""
