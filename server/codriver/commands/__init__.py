"""The commands, one file a family; only the one that is used is imported."""
