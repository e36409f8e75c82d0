"""Basics of the worker: connections, jobs, printing and errors, and the contract of a language."""
