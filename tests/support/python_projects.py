"""Workspaces with a Python environment of their own, for tests to which it matters what is installed in it."""

import sysconfig
import venv


def project(folder, *, has_pytest):
    """The workspace of a server on `folder`: its environment has all that this one has, or nothing but Python."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    venv.create(workspace / ".venv", symlinks=True)
    if has_pytest:
        library = next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages"
        (library / "all.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return workspace
