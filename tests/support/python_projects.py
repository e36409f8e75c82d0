"""Workspaces with their own Python environment, for tests that depend on what is installed in it."""

import sysconfig
import venv


def project(folder, *, has_pytest):
    """Create the workspace of a server in `folder`, whose environment has all packages of this one, or only Python."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    venv.create(workspace / ".venv", symlinks=True)
    if has_pytest:
        library = next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages"
        (library / "all.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return workspace
