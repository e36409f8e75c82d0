"""The page about clients matches the templates. `python tests/setup/test_client_pages.py` writes it again."""

import re
import tomllib
from pathlib import Path

import pytest

from codriver.setup.client_hooks import known_hooks
from codriver.setup.clients import entry_name, known_clients
from codriver.setup.environment import Environment
from codriver.setup.printed_clients import printed_clients
from codriver.setup.relay_launch import Launch

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "wrapper-config" / "README.md"
CLIENTS = known_clients()
LAUNCH = Launch(
    Path("/home/me/.venv/bin/python"),
    Path("/home/me/.config/codriver/codriver_relay.py"),
    Path("/home/me/app"),
    ("codriver-relay", "--workspace", "auto", "--start"),
)
ME = Environment(Path("~"), "linux", {})

HEAD = """\
# Codriver in your MCP client

Run `codriver init` in your project to write these entries for the clients that it finds. Use `--client NAME` for a
client that it does not find, `--dry-run` to preview the changes, and `--remove` to remove them. Comments and other
entries in the files are preserved. For each client, `codriver init --list` shows whether it was found, whether it has
an entry, and when it last connected. The server stores the connection times in your state directory
(`seen-clients.json`, at most 64 names). `codriver doctor` checks whether an entry works.

`--approve` adds the key that makes Gemini CLI, Qwen Code (`trust = true`) and Codex (`default_tools_approval_mode =
"approve"`) run every tool without asking you, including tools that run arbitrary code. To remove the key, use
`--force` without `--approve`.

Files in the project may be shared, so their entries contain no paths from your machine. `codriver-relay` has to be on
the client's `PATH`, where `uv tool install` and pipx put it. Once Codriver is published, the command is
`uvx --from codriver==VERSION codriver-relay --workspace auto --start`. With `auto`, the relay finds the workspace
itself, as described in `codriver-relay --help`. `init` replaces entries with paths that it wrote earlier. If neither
command works, it only writes paths into a project that is not a Git repository, or with `--force`. Otherwise, `init`
prints the command that adds the entry only for you, with `--scope user` or `claude mcp add`.

To write an entry for your user configuration by hand, replace three paths: the interpreter in which Codriver is
installed, the relay (installed by `codriver serve` and `codriver init`), and your project's port file. The port file
does not have to exist, because `--start` makes the relay start a server if none is running.

"""
CONNECTING = """\
## Entries, relay and workspace

- `codriver init` supports 25 clients. The command changes nothing else in their files, and `--remove` removes its
  entries and the directories that it created. Copilot CLI shares the entry in `.mcp.json` with Claude Code. Visual
  Studio uses another key, which `init` never adds to a file with entries for other clients. If a shared file has no
  entry, `doctor` explains why. For goose, Continue and the Copilot cloud agent (`--client github`), `init` prints an
  entry to paste. `--approve` prints what it allows. `--client all` lists the clients that it skips because they cannot
  have an entry in the `--scope`. The REPL of the project is written to `codriver.toml`.
- The relay only needs the standard library. It is installed and compiled in a directory per version, so a relay that
  starts during an upgrade never mixes versions. The relay keeps running when the server ends. It answers pending
  requests with what is known about them, never sends a request twice, and repeats the handshake with the next server.
  With `--start`, the relay starts a server, which stops when no client has been connected for some time. While the
  server starts, a client that has connected before gets its list of tools immediately, and is notified if the list has
  changed.
- Without `--start`, the relay answers immediately if no server is running (the first request of a client after 2
  seconds), and within 20 seconds if a server does not answer. The relay checks again at the next request.
- Entries in project files only contain `codriver-relay --workspace auto --start`, or `uvx` if Codriver was installed
  from a registry. If neither works, `init` does not write to a Git repository without `--force`, and suggests
  `--scope user`. It replaces entries that it wrote earlier without `--force`, but not those of other team members.
- `codriver-relay --workspace auto` uses the directory in `CLAUDE_PROJECT_DIR`, the nearest parent directory with a
  server, `codriver.toml`, a project file or `.git`, or a root of the client. If it finds none, the error explains what
  to do. The relay never uses your home directory, `/`, temporary directories, or directories of other users. The choice
  does not change when the roots change."""
HOOKS = """\
## Hooks

`codriver init --hooks` also installs hooks for the clients below. `--remove --hooks` removes only the hooks, and
`--remove` removes hooks and entries. Other hooks in the same files are preserved. `codriver doctor` runs each installed
hook with a recorded input and prints its duration and answer. If a hook differs from the one that `init` writes,
`doctor` reports the hook instead of running it.

- After an edit with the client's own tools, the file and its editor are recorded in the log. If a Lisp file has a
  syntax error, the agent gets the line, the column, and a correction based on the indentation. The file is not
  changed.
- Before a complete Lisp file is written, it is checked. If it has a syntax error, the write is refused with the same
  information.
- At the end of a turn, with `hookGate = true`, the tests for changed files run for at most 20 seconds. If they fail,
  the agent has to continue, but only once. The tests for a module are those in the files named after it. Python tests
  run in a new process. In a Lisp, the loaded code is tested, so also set `watch = true`.
- At the start of a session, and after a compaction if the client starts a new session, the agent gets at most 1,500
  characters about the REPLs and their generation, definitions that are not in any file, recent failures, running
  code, and other callers.

If there is nothing to report, hooks use no tokens. No hook approves anything that the client would ask you about.
Workspace settings that enable hooks take effect after you accept them with `codriver trust`.

The hooks for Claude Code and Codex call the unlisted tool `note_edit` on the open connection, so edits made before the
connection is open are not recorded. The hooks for other clients, and the hook that Claude Code runs at the start of a
session, run `codriver-hook CLIENT EVENT`, a file next to the relay that only needs the standard library. It never
starts a server. It prints `{}` and exits with status 0 if no server is running, or if there is no answer within 1.5
seconds (25 seconds at the end of a turn). `CODRIVER_HOOK_DEADLINE_S` sets a different limit. The hook for Claude Code
prints nothing if Copilot runs it, because Copilot has its own. The hooks for Cursor and Cline follow their
documentation. The hooks for all other clients have been tested with the real client.

"""
PACKAGES = """\
## Packages

`python wrapper-config/make_packages.py` generates these packages from `packages.toml`. All except the bundle need
`codriver-relay` on the client's `PATH`, and find the project like `--workspace auto`. `CHECKOUT` is a checkout of
Codriver or the address of its repository. An entry in the project has the same name as the plugin, so only one relay
is started. An entry in your user configuration has another name and would start a second relay. Remove it with
`codriver init --remove --scope user`.

| Client | How to install |
| --- | --- |
| Claude Code | `claude plugin marketplace add CHECKOUT`, `claude plugin install codriver@codriver` |
| Copilot CLI | `copilot plugin marketplace add CHECKOUT`, `copilot plugin install codriver@codriver` |
| Codex | `codex plugin marketplace add CHECKOUT`, `codex plugin add codriver@codriver` |
| Gemini CLI | `gemini extensions install CHECKOUT/wrapper-config/plugin` |
| Qwen Code | `qwen extensions install CHECKOUT/wrapper-config/plugin` |
| Claude Desktop | `python wrapper-config/make_packages.py --bundle FOLDER`, \
`npx @anthropic-ai/mcpb pack FOLDER codriver.mcpb`, and open `codriver.mcpb`. It contains Codriver, asks for the \
project's directory, and installs its dependencies with `uv`. |
| VS Code, Cursor, LM Studio | Use the links in the [README](../README.md#connect-your-agent). \
In LM Studio, replace `auto` with the project's directory. |
| MCP registry | `server.json`, to be published with the first release on PyPI |

The plugin and the extension contain the skills as files. They start the relay with `--no-skills`, so that no client
lists a skill twice. For other clients, `codriver init --skills` writes the files: Codex, Gemini CLI, Qwen Code,
Copilot CLI and opencode read `.agents/skills`, Claude Code reads `.claude/skills`. Files that you have changed are
not overwritten. For clients that do not pass on the server's instructions, such as Copilot CLI, `codriver init
--agents-md` adds six lines, between markers, to `AGENTS.md`. `--remove` removes the skill files and these lines.
"""
PACKAGE = "%LOCALAPPDATA%/Packages/Claude_*/LocalCache/Roaming/Claude"
WHERE = {"workspace": "in the project", "user": "for you"}


def documented_file(client, scope):
    """Return the file of a scope as a person would write it."""
    if scope not in client.scopes:
        return ""
    if scope == "workspace":
        return f"`{client.workspace[0]}`"
    return f"`{client.file('user', LAUNCH.workspace, ME)}`"


def elsewhere(client, scope):
    """Return where the file is on other platforms, if that differs."""
    if scope == "workspace":
        return ""
    home = {"home": "~", "config": "~/.config", "appdata": "%APPDATA%", "codex": "~/.codex", "claude-package": PACKAGE}
    named = [
        f"{name}: {' or '.join(f'`{path.format_map(home)}`' for path in client.user[platform])}"
        for name, platform in (("macOS", "macos"), ("Windows", "windows"))
        if client.user[platform] != client.user["linux"]
    ]
    return f" ({', '.join(named)})" if named else ""


def page():
    table = tomllib.loads((ROOT / "wrapper-config" / "clients.toml").read_text())
    rows = [
        "| client | name for `--client` | file in the project | file for all projects |",
        "| --- | --- | --- | --- |",
    ]
    for client in CLIENTS.values():
        cells = (f"[{client.title}](#{anchor(client)})", f"`{client.id}`", *(documented_file(client, s) for s in WHERE))
        rows.append(f"| {' | '.join(cells)} |")
    for name, printed in printed_clients().items():
        rows.append(f"| [{printed.title}](#{anchor(printed)}) | `{name}` | printed |  |")
    parts = [HEAD + "\n".join(rows)]
    for client in CLIENTS.values():
        scope = client.scopes[0]
        language = "toml" if client.is_toml else "json"
        text = client.render(LAUNCH.for_scope(scope), entry_name(scope, LAUNCH.workspace)).rstrip("\n")
        source = table[client.id]["source"]
        parts += [
            f"## {client.title}",
            f"In {documented_file(client, scope)}{elsewhere(client, scope)}:",
            f"```{language}\n{text}\n```",
            f"Then {client.next}.\nSource of the format: {source}.",
        ]
    parts += [part for name, client in printed_clients().items() for part in printed_section(name, client)]
    return "\n\n".join([*parts, CONNECTING, HOOKS + hooks_table(), PACKAGES])


def hooks_table():
    """Return the files of the hooks that `init` installs."""
    rows = ["| client | file in the project | then |", "| --- | --- | --- |"]
    for name, files in known_hooks().items():
        then = "; ".join(file.next for file in files if file.next)
        rows.append(f"| {CLIENTS[name].title} | {', '.join(f'`{file.path}`' for file in files)} | {then} |")
    return "\n".join(rows)


def printed_section(name, client):
    """Return what `init` prints for a client, to be pasted."""
    row = tomllib.loads((ROOT / "wrapper-config" / "printed.toml").read_text())[name]
    yield f"## {client.title}"
    yield f"`codriver init --client {name}` prints the following and writes nothing."
    for block in client.blocks:
        text = client.render(block, LAUNCH).rstrip("\n")
        language = "json" if text.startswith("{") else "yaml"
        yield f"For {block.location}:\n\n```{language}\n{text}\n```"
    yield f"Then {client.next}.\nSource of the format: {row['source']}."


def anchor(client):
    return re.sub(r"[()]", "", client.title.lower()).replace(" ", "-")


def test_the_documentation_page_of_clients_matches_the_templates():
    assert PAGE.read_text() == page(), "run `python tests/setup/test_client_pages.py`"


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.id)
def test_every_client_has_a_section_on_the_documentation_page(client):
    text = PAGE.read_text()
    assert f"\n## {client.title}\n" in text
    assert f"`{client.id}`" in text
    assert "{{" not in text


if __name__ == "__main__":
    PAGE.write_text(page())
