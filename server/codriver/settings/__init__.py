"""Settings: their model and layers, trust in a workspace's own, and reload while a server runs."""
