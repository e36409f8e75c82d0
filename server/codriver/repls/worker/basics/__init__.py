"""The parts on which the rest of the worker builds: connections, jobs, printing, errors, and the dialect interface."""
