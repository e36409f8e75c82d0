"""The worker's Lisp dialect: Basilisp's forms, values and namespaces."""
