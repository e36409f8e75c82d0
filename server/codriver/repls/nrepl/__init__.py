"""The adapter for nREPL servers: transport, connection, sessions, evaluator, introspection."""
