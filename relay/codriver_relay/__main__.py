"""Makes `python -m codriver_relay` run the relay."""

from __future__ import annotations

import sys

from codriver_relay import main

if __name__ == "__main__":
    sys.exit(main())
