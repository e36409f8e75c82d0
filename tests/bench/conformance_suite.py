"""MCP's conformance suite against a server: every scenario of two revisions, compared with the tolerated failures.

`python tests/bench/conformance_suite.py` takes some minutes. It ends with 1 if a scenario fails that
`tests/clients/conformance_failures.toml` does not list, or one passes that it lists. The suite is that of
`tests/clients/package.json`, with its own Node.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from conformance import bridged, suite  # noqa: E402
from live_server import Live  # noqa: E402

LISTED = ROOT / "tests" / "clients" / "conformance_failures.toml"
RESULT = re.compile(r"^(✓|✗) ([\w-]+): \d+ passed", re.MULTILINE)


def main():
    listed = tomllib.loads(LISTED.read_text("utf-8"))
    is_same = True
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder) / "a", "--repl", "none")
        try:
            with bridged(live) as address:
                for revision, reasons in listed.items():
                    command = [*suite(), "server", "--url", address, "--requirements", revision]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    results = {name: sign for sign, name in RESULT.findall(done.stdout + done.stderr)}
                    failed = {name for name, sign in results.items() if sign == "✗"}
                    tolerated = {name for names in reasons.values() for name in names}
                    print(f"{revision}: {len(results) - len(failed)} of {len(results)} pass")
                    for what, names in (("fails", failed - tolerated), ("passes, so take it off", tolerated - failed)):
                        for name in sorted(names):
                            print(f"  {name} {what}")
                            is_same = False
                    is_same = is_same and bool(results)
        finally:
            live.stop()
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
