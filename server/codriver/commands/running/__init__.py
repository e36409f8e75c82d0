"""Evaluations and tests that a command waits for: their output as it comes, their progress, their input."""
