"""REPLs: finding and starting them, adapters for their protocols, and evaluations."""
