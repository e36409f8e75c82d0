"""The parts of features that run in the worker. `..basics.features` loads each module; any of them may be missing."""
