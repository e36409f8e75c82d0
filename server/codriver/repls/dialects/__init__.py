"""What differs between the languages of REPLs: one table, and the code that asks each."""
