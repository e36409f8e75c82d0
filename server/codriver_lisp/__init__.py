"""Lisp text: a reader, parinfer, structural edits and renaming, without I/O."""
