"""The parts of features that run in the worker. `..basics.features` loads each module. Any of them may be missing."""
