"""Lisp in the worker: Basilisp's forms, values and namespaces."""
