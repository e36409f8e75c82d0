"""Accept workspaces, as their users do with `codriver trust`."""

from codriver.app.workspace_settings import load_workspace_settings
from codriver.settings.acceptance import accept_workspace


def accept(workspace, environ=None):
    """Accept a workspace with its current settings and environment."""
    environ = environ or {}
    accept_workspace(workspace, load_workspace_settings(workspace, environ=environ), environ)
