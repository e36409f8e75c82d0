"""The recorded first messages of real clients, up to their first evaluation, unchanged and in order.

Claude Code 2.1.330, Copilot CLI 1.0.102, Codex 0.169.0, Gemini CLI 0.61.0, opencode 1.18.33, Qwen Code 0.24.4 and
Cline 3.0.65; session ids are shortened.
"""

import json
import sys
from pathlib import Path

from live_server import Live

STARTS = json.loads(Path(__file__).with_name("client_starts.json").read_text())
LISTEN = "subscriptions/listen"


def begin(client, name):
    """Send a server the first messages of this client, each once the previous one was answered."""
    for line in STARTS[name]:
        message = json.loads(line)
        client.write(line.encode() + b"\n")
        if "id" in message and message["method"] != LISTEN:
            answer = client.answer(message["id"])
            assert "error" not in answer, (line, answer)


class Delivery(Live):
    """A server that records, when it ends, which libraries it imported."""

    def command(self, name, *options):
        python, _, _, *rest = super().command(name, *options)
        return [python, __file__, str(self.folder / "imported.json"), *rest]

    def imported(self):
        """Return the names of the imported libraries once the server has ended."""
        self.stop()
        return set(json.loads((self.folder / "imported.json").read_text()))


if __name__ == "__main__":
    from codriver.commands.cli import main

    told = Path(sys.argv.pop(1))
    try:
        main()
    finally:
        told.write_text(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
