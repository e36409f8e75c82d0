"""Run the relay with `python -m codriver_relay`, as a script, or with `python DIRECTORY` for a copied package."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not __package__:
        directory = os.path.dirname(__file__)
        sys.path.insert(0, os.path.dirname(directory) if os.path.basename(directory) == "codriver_relay" else directory)
    from codriver_relay.command_line import main

    if not __package__:
        del sys.path[0]  # nothing else in that directory may be imported
    sys.exit(main())
