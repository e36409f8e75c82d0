"""The comparison of a process with a fresh import of its modules: shapes, the importing process, and the finding."""
