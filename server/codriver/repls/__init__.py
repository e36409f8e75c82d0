"""REPLs: how they are found and started, adapters for their protocols, and evaluations."""
