"""The worker's Python dialect, which runs, reloads and inspects Python code."""
