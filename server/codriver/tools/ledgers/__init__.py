"""Records for the life of one server: code and files of each caller, and notes that each caller has received."""
