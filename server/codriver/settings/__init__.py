"""Settings: their model, loading and reloading them from several layers, and trust in workspace settings."""
