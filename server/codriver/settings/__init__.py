"""Settings: the model, the layers they are loaded from, trust in workspace settings, and reloading at run time."""
