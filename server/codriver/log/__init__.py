"""The output log, the history, and the texts of evaluations: the only way in, and what is kept."""
