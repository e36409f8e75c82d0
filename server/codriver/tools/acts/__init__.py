"""Acts of callers: code submitted, files loaded, tests run, and edits with both as one."""
