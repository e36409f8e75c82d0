"""The page about clients matches the templates. `python tests/setup/test_client_pages.py` writes it again."""

import re
import tomllib
from pathlib import Path

import pytest

from codriver.setup.agent_files import known_hooks
from codriver.setup.clients import Environment, Launch, entry_name, known_clients, printed_clients

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

`codriver init` in your project writes these entries for the clients it finds; `--client NAME` for one that it does not
find, `--dry-run` to see what it would write, `--remove` to take it out again. Comments and other entries in the files
stay. `codriver init --list` shows all clients: found or not, with an entry or not, and when each was last connected, as
the server notes in your state folder (64 names, `seen-clients.json`). `codriver doctor` says whether an entry works.
`--approve` adds the key by which Gemini CLI, Qwen Code (`trust = true`) and Codex
(`default_tools_approval_mode = "approve"`) run every tool, any code included, without asking you; `--force` without it
takes the key back.

A file in the project may be shared, so its entry names no path of one machine: `codriver-relay` has to be on the
`PATH` of the client, as `uv tool install` and pipx put it there from a checkout, or, once it is published, the command
is `uvx --from codriver==VERSION codriver-relay --workspace auto --start`. With `auto`, which serves your own files and
any project too, the relay finds the workspace: `codriver-relay --help` says how. `init` replaces its older entries,
which had paths; where neither command works, it writes paths into the project only outside of git or with `--force`,
and names the command that adds the entry for you alone: with `--scope user`, or by `claude mcp add`.

To write an entry for your own file by hand, put your paths in: an interpreter that has Codriver, the relay (`codriver
serve` and `codriver init` install it), and the port file of your project, which need not be there yet: `--start` has
the relay start a server when none runs.

"""
CONNECTING = """\
## Entries, relay and workspace

- `codriver init` writes the entry of 25 clients, keeps everything else in their files, and takes it out again with the
  folders it made. Copilot CLI shares the entry in `.mcp.json` with Claude Code; Visual Studio's key never stands beside
  another client's in one file. `doctor` says why a file that a team shares has no entry. For goose, Continue and the
  Copilot cloud agent (`--client github`) it prints what to paste. `--approve` says what it grants. `--client all` skips
  clients without an entry in `--scope` and names them. The REPL of a Python project is written to `codriver.toml` as
  any other.
- The relay needs the standard library alone, kept compiled where it is installed, a folder for each version: one that
  starts in the middle of an upgrade is of one version. It survives the server: open requests are answered with what is
  known, nothing is sent twice, and the handshake is repeated. With `--start` it starts a server that ends when nobody
  needs it; meanwhile a client that was here before, of whichever protocol version, gets its list of tools at once, is
  told if it has changed, and caches none of it.
- A relay that may start no server answers at once where none runs, a client's first request after 2 s, and within 20 s
  where one lives and does not answer. The next request makes it look again.
- Entries in files of the project name no path of one machine but `codriver-relay --workspace auto --start`, or `uvx`
  where Codriver came from a registry; where neither works, `init` writes none into a git repository without `--force`
  and names `--scope user`. Older entries are replaced without `--force`; those of other members of a team stay.
- `codriver-relay --workspace auto` finds the workspace: the folder that `CLAUDE_PROJECT_DIR` names, else the nearest
  from the current one upward with a server, `codriver.toml`, a project file or `.git`, else a root of the client, else
  an error that says what to do. Never home, `/`, a folder for temporary files or of others. A choice stays when the
  roots change."""
HOOKS = """\
## Hooks

`codriver init --hooks` installs hooks too, for the clients below; `--remove --hooks` takes only them out, `--remove`
both. Other hooks in the same files stay. `codriver doctor` runs each that is installed with a recorded input and shows
its time and answer; a hook that says anything else than what `init` writes is named and not run.

- At an edit by the client's own tools: the log gets who edited which file. Lisp that does not read is told with line,
  column and the lines that its indentation suggests, and never rewritten.
- Before a whole Lisp file is written: one that does not read is refused, with line, column and proposal.
- At the end of a turn, with `hookGate = true`: the tests of namespaces and modules whose files changed run, for 20 s at
  most, and hold the agent up once if they fail. A module's tests are the files named after it. Python tests run from
  the files in a new process. Of Lisp, what is loaded is tested: set `watch = true`, too.
- At the start, and after a compaction where the client starts anew: the REPLs with their generation, what is defined
  there and in no file, the last failures, what runs, and who else is here, in 1,500 characters.

All well costs no token, and no hook allows what the client would ask for. In a workspace's own settings the switches
count once you have accepted them (`codriver trust`). Hooks of Claude Code and Codex call the tool `note_edit`, which is
listed to nobody, on the connection that is open: an edit before that is open is not noted. The others, and Claude Code
at a start, run `codriver-hook CLIENT EVENT`, one standard-library file beside the relay. It prints `{}` and ends with
status 0 where there is no server, or no answer within 1.5 s (or `CODRIVER_HOOK_DEADLINE_S`; 25 s at the end of a turn),
and starts none. Claude Code's says nothing where Copilot runs it, which has its own. Cursor's and Cline's are as their
pages say; those of the others were seen at work.

"""
PACKAGES = """\
## Packages

Made of `packages.toml` by `python wrapper-config/make_packages.py`; all but the bundle want `codriver-relay` on the
`PATH` of the client, and find the project as `--workspace auto` does. `CHECKOUT` is a checkout of Codriver, or the
repository that has it. An entry of the project by `codriver init` has the plugin's name, so one relay starts; one in
your own file has another, and a second would start: `codriver init --remove --scope user` takes it out.

| for | by |
| --- | --- |
| Claude Code | `claude plugin marketplace add CHECKOUT`, `claude plugin install codriver@codriver` |
| Copilot CLI | `copilot plugin marketplace add CHECKOUT`, `copilot plugin install codriver@codriver` |
| Codex | `codex plugin marketplace add CHECKOUT`, `codex plugin add codriver@codriver` |
| Gemini CLI | `gemini extensions install CHECKOUT/wrapper-config/plugin` |
| Qwen Code | `qwen extensions install CHECKOUT/wrapper-config/plugin` |
| Claude Desktop | `python wrapper-config/make_packages.py --bundle FOLDER`, \
`npx @anthropic-ai/mcpb pack FOLDER codriver.mcpb`, and open `codriver.mcpb`: it holds Codriver, asks for the \
project's folder, and runs `uv` for what else it needs |
| VS Code, Cursor, LM Studio | the links in the [README](../README.md#connect-your-agent); \
LM Studio knows no project: put its folder in place of `auto` there |
| MCP registry | `server.json`, to be published with a release on PyPI, which there is none of yet |

The plugin and the extension bring the skills as files, so they start the relay with `--no-skills`, and no client shows
a skill twice. For other clients `codriver init --skills` writes them as files: Codex, Gemini CLI, Qwen Code, Copilot
CLI and opencode read `.agents/skills`, Claude Code `.claude/skills`. A file that you change stays as it is. `codriver
init --agents-md` writes six lines between marks into `AGENTS.md`, for clients that do not show what a server says of
itself, such as Copilot CLI. With `--remove` both go again.
"""
PACKAGE = "%LOCALAPPDATA%/Packages/Claude_*/LocalCache/Roaming/Claude"
WHERE = {"workspace": "in the project", "user": "for you"}


def shown(client, scope):
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
        cells = (f"[{client.title}](#{anchor(client)})", f"`{client.id}`", *(shown(client, s) for s in WHERE))
        rows.append(f"| {' | '.join(cells)} |")
    for name, printed in printed_clients().items():
        rows.append(f"| [{printed.title}](#{anchor(printed)}) | `{name}` | printed |  |")
    parts = [HEAD + "\n".join(rows)]
    for client in CLIENTS.values():
        scope = client.scopes[0]
        language = "toml" if client.is_toml else "json"
        text = client.render(LAUNCH.in_scope(scope), entry_name(scope, LAUNCH.workspace)).rstrip("\n")
        source = table[client.id]["source"]
        parts += [
            f"## {client.title}",
            f"In {shown(client, scope)}{elsewhere(client, scope)}:",
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
    yield f"`codriver init --client {name}` prints what follows; nothing is written."
    for block in client.blocks:
        text = client.render(block, LAUNCH).rstrip("\n")
        language = "json" if text.startswith("{") else "yaml"
        yield f"For {block.place}:\n\n```{language}\n{text}\n```"
    yield f"Then {client.next}.\nSource of the format: {row['source']}."


def anchor(client):
    return re.sub(r"[()]", "", client.title.lower()).replace(" ", "-")


def test_the_page_matches_the_templates():
    assert PAGE.read_text() == page(), "run `python tests/setup/test_client_pages.py`"


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.id)
def test_every_client_has_its_section(client):
    text = PAGE.read_text()
    assert f"\n## {client.title}\n" in text
    assert f"`{client.id}`" in text
    assert "{{" not in text


if __name__ == "__main__":
    PAGE.write_text(page())
