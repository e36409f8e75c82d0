"""Commands of `codriver` that a user may run in a checkout, each with the arguments that make it do something."""

IN_WORKSPACE = ("claude-code", "vscode", "cursor", "gemini", "codex", "zed", "eca", "opencode")
"""The clients that keep an entry in the workspace."""
SET_UP = ("init", *(word for name in IN_WORKSPACE for word in ("--client", name)), "--scope", "workspace")
COMMANDS = (
    ("status",), ("stop",), ("config", "show"), ("config", "check"), ("doctor",), ("doctor", "--json"), ("tools",),
    ("eval", "1"), ("call", "list_sessions"), ("log",), ("history",), ("load", "x.py"), ("trust", "--list"),
    ("init", "--dry-run"), SET_UP, (*SET_UP, "--force"), ("init", "--remove", "--scope", "workspace"),
    ("trust",), ("trust", "--remove"), ("completion", "bash"), ("log", "--follow"), ("watch",), ("log", "--run", "-1"),
    ("runs",), ("forget",),
)  # fmt: skip
