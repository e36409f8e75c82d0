"""Workspaces with their own Python environment, for tests that depend on what is installed in it."""

import subprocess
import sys
import sysconfig


def project(folder, *, has_pytest, python=sys.executable):
    """Create the workspace of a server in `folder`, whose environment has all packages of this one, or only `python`.

    Packages that were compiled for one version of Python cannot be imported by another.
    """
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    subprocess.run([python, "-m", "venv", "--without-pip", "--symlinks", workspace / ".venv"], check=True)
    if has_pytest:
        library = next((workspace / ".venv" / "lib").glob("python3*")) / "site-packages"
        (library / "all.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return workspace
