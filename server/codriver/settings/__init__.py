"""The model of the settings, loading and reloading them from several layers, and trust in workspace settings."""
