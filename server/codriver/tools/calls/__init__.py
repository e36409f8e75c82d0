"""Tool calls: arguments, availability, the choice of a session, and the format of answers."""
