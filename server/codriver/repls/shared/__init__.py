"""Readers of answers and runs of tests that the adapters of all protocols share."""
