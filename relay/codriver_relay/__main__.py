"""Runs the relay, or the hook program: as `python -m codriver_relay`, and as the script that clients start.

That script is a copy of this file, beside a folder with the relay. Python keeps the bytecode of what is imported, and
compiles a script at each start: for the relay itself that takes as long as all else.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not __package__:  # a script, whose folder `python -I` leaves out
        folder = os.path.dirname(__file__)
        sys.path.insert(0, os.path.dirname(folder) if os.path.basename(folder) == "codriver_relay" else folder)
    if __file__.endswith("hook.py"):  # the same file under another name
        from codriver_relay.hook import main
    else:
        from codriver_relay.command_line import main

    if not __package__:
        del sys.path[0]  # what else lies there is nobody's module
    sys.exit(main())
