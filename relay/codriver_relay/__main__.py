"""Runs the relay: as `python -m codriver_relay`, as a script, and as a copy beside the package by `python FOLDER`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not __package__:
        folder = os.path.dirname(__file__)
        sys.path.insert(0, os.path.dirname(folder) if os.path.basename(folder) == "codriver_relay" else folder)
    from codriver_relay.command_line import main

    if not __package__:
        del sys.path[0]  # what else lies there is nobody's module
    sys.exit(main())
