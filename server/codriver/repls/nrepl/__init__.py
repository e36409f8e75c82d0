"""The adapter for nREPL servers."""
