"""The output log, the history, the memory of earlier runs, and the transcripts of evaluations."""
