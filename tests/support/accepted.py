"""Acceptance of workspaces, as their users give it by `codriver trust`."""

from codriver.app.workspace_settings import load
from codriver.settings.acceptance import accept_workspace


def accept(workspace, environ=None):
    """Accept a workspace with its settings and its environment as they are now."""
    environ = environ or {}
    accept_workspace(workspace, load(workspace, environ=environ), environ)
