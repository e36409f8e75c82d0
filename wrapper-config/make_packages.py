"""Generate the packages for installing Codriver in clients, as described in `packages.toml`.

`python wrapper-config/make_packages.py` generates the files that are stored in the repository: the plugin for Claude
Code, Copilot CLI and Codex, which is also the extension for Gemini CLI and Qwen Code; its marketplace file; the
manifest of the bundle for Claude Desktop; `server.json` for the MCP registry; and the links in the README.

`python wrapper-config/make_packages.py --bundle FOLDER` creates the content of the bundle for Claude Desktop, which
includes all of Codriver. `npx @anthropic-ai/mcpb pack FOLDER codriver.mcpb` then packs it into one file.

Codriver must be installed in the interpreter.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from codriver.setup.agent_files import skill_files
from codriver.setup.shared_command import RELAY_COMMAND

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
PLUGIN: Final = Path("wrapper-config/plugin")
NO_SKILLS: Final = "--no-skills"
"""Relay option for the plugin's entries. The plugin includes the skills as files, so clients would list them twice."""
CODEX_ENTRY: Final = ".codex-plugin/mcp.json"
MANIFEST: Final = Path("wrapper-config/mcpb/manifest.json")
BUNDLED: Final = ("pyproject.toml", "README.md", "LICENSE", "server", "relay", "skills", "wrapper-config")
"""The parts of the repository that are included in the bundle."""


def main(arguments: list[str]) -> int:
    """Generate the files, or the bundle if requested, and return the exit status."""
    match arguments:
        case []:
            for path, text in packages().items():
                (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
                (ROOT / path).write_text(text, encoding="utf-8")
            return 0
        case ["--bundle", folder]:
            create_bundle(Path(folder))
            return 0
    sys.stderr.write(str(__doc__))
    return 2


def packages() -> dict[Path, str]:
    """Return the text of each generated file, by its path in the repository."""
    about = description()
    return {
        Path(".claude-plugin/marketplace.json"): as_json(marketplace(about)),
        PLUGIN / ".claude-plugin/plugin.json": as_json(plugin(about)),
        PLUGIN / ".mcp.json": as_json({"mcpServers": {about["name"]: plugin_entry()}}),
        PLUGIN / ".codex-plugin/plugin.json": as_json({**plugin(about), "mcpServers": f"./{CODEX_ENTRY}"}),
        PLUGIN / CODEX_ENTRY: as_json({"mcpServers": {about["name"]: codex_entry(about)}}),
        PLUGIN / "gemini-extension.json": as_json(gemini_extension(about)),
        PLUGIN / "README.md": about["page"].lstrip("\n"),
        **{PLUGIN / "skills" / path: text for path, text in skill_files().items()},
        **debugging(about["debugger"]),
        MANIFEST: as_json(bundle_manifest(about)),
        Path("wrapper-config/server.json"): as_json(registry_entry(about)),
        Path("README.md"): add_install_links(README.read_text(encoding="utf-8"), about),
    }


def description() -> dict[str, Any]:
    """Return Codriver's metadata from `packages.toml` and `pyproject.toml`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = tomllib.loads((ROOT / "wrapper-config/packages.toml").read_text(encoding="utf-8"))
    return {**about, "version": project["version"], "license": project["license"], "python": project["requires-python"]}


def as_json(document: dict[str, Any]) -> str:
    """Serialize a document as the content of a JSON file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def command_line(*more: str) -> dict[str, Any]:
    """Return the relay's command line followed by `more` arguments, in the format most clients use."""
    command, *words = RELAY_COMMAND
    return {"command": command, "args": [*words, *more]}


def marketplace(about: dict[str, Any]) -> dict[str, Any]:
    """Return the marketplace file, which lets clients install the plugin from this repository.

    Source: Claude Code, plugins.
    """
    listed = {"name": about["name"], "source": f"./{PLUGIN.as_posix()}", "description": about["description"]}
    owner = {"name": about["author"]}
    return {"name": about["name"], "description": about["description"], "owner": owner, "plugins": [listed]}


def plugin(about: dict[str, Any]) -> dict[str, Any]:
    """Return the plugin's manifest.

    Source: Claude Code, plugins reference.
    """
    same = {key: about[key] for key in ("name", "version", "description")}
    more = {key: about[key] for key in ("license", "keywords")}
    return {**same, "author": {"name": about["author"]}, **more}


def plugin_entry() -> dict[str, Any]:
    """Return the plugin's server entry for Claude Code and Copilot CLI.

    Copilot CLI 1.0.102 starts the server in the plugin's directory unless the entry has a `cwd`. The server would find
    no project there. With `cwd`, it is started in the project's directory, as Claude Code always does.
    """
    return {"type": "stdio", **command_line(NO_SKILLS), "cwd": "."}


def codex_entry(about: dict[str, Any]) -> dict[str, Any]:
    """Return the plugin's server entry for Codex.

    Codex resolves `cwd` below the plugin and ignores entries with unknown keys, so this entry has no `cwd`.

    Source: Codex 0.169.0, observed.
    """
    seconds = {"startup_timeout_sec": about["start-seconds"], "tool_timeout_sec": about["call-seconds"]}
    return {**command_line(NO_SKILLS), **seconds, "env_vars": about["variables"]}


def gemini_extension(about: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest that makes the plugin's directory an extension of Gemini CLI.

    Source: Gemini CLI, extensions reference.
    """
    same = {key: about[key] for key in ("name", "version", "description")}
    return {**same, "mcpServers": {about["name"]: {**command_line(NO_SKILLS), "timeout": about["call-seconds"] * 1000}}}


def debugging(about: dict[str, str]) -> dict[Path, str]:
    """Return the files for the debugging subagent and the debugging skill, by path. All have the same text.

    Claude Code reads every Markdown file in `agents`, and Copilot CLI those ending in `.agent.md`. An agent that lists
    no tools can use all of them. Codex plugins cannot contain agents. Codex reads those from TOML files in
    `.codex/agents`.

    Sources: Claude Code, subagents; Copilot CLI, custom agents; Codex, subagents.
    """
    body = (ROOT / "wrapper-config/live-debugger.md").read_text(encoding="utf-8")
    agent, skill = about["agent"], about["skill"]
    quoted = json.dumps(about["when"], ensure_ascii=False)
    codex = f"name = {json.dumps(agent)}\ndescription = {quoted}\ndeveloper_instructions = '''\n{body}'''\n"
    return {
        PLUGIN / f"agents/{agent}.agent.md": f"---\nname: {agent}\ndescription: {quoted}\n---\n\n{body}",
        PLUGIN / f"codex-agents/{agent}.toml": codex,
        PLUGIN
        / f"skills/{skill}/SKILL.md": f"---\nname: {skill}\ndescription: {quoted}\n---\n\n# {about['title']}\n\n{body}",
    }


def bundle_manifest(about: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest for the Claude Desktop bundle, which uses uv to install its dependencies.

    Source: MCP bundles, MANIFEST.md, 0.4.
    """
    words = ["run", "--directory", "${__dirname}", "--extra", "lisp", RELAY_COMMAND[0]]
    config = {"command": "uv", "args": [*words, "--workspace", "${user_config.workspace}", "--start"]}
    workspace = {
        "type": "directory",
        "title": "Project",
        "description": "The folder of the project whose REPLs Codriver finds or starts",
        "required": True,
    }
    return {
        "manifest_version": "0.4",
        "name": about["name"],
        "display_name": about["title"],
        "version": about["version"],
        "description": about["description"],
        "author": {"name": about["author"]},
        "server": {"type": "uv", "entry_point": "relay/codriver_relay/__main__.py", "mcp_config": config},
        "tools_generated": True,
        "keywords": about["keywords"],
        "license": about["license"],
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": about["python"]}},
        "user_config": {"workspace": workspace},
    }


def registry_entry(about: dict[str, Any]) -> dict[str, Any]:
    """Return the entry for the MCP registry (`server.json`).

    A client converts it to the command `uvx codriver==VERSION relay --workspace auto --start`.
    """
    _, option, value, flag = RELAY_COMMAND
    package = {
        "registryType": "pypi",
        "identifier": about["name"],
        "version": about["version"],
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [
            {"type": "positional", "value": "relay"},
            {"type": "named", "name": option, "value": value},
            {"type": "named", "name": flag},
        ],
    }
    named = {"name": about["registry-name"], **{key: about[key] for key in ("title", "description", "version")}}
    return {"$schema": about["registry-schema"], **named, "packages": [package]}


def install_links(about: dict[str, Any]) -> dict[str, str]:
    """Return the links that add the server to a client, by the client's name."""
    entry = command_line()
    packed = json.dumps(entry, separators=(",", ":"))
    coded = {"name": about["name"], "config": base64.b64encode(packed.encode()).decode()}
    plain = {"name": about["name"], "config": packed}
    return {
        "VS Code": f"https://insiders.vscode.dev/redirect/mcp/install?{urlencode(plain, quote_via=quote)}",
        "Cursor": f"https://cursor.com/en/install-mcp?{urlencode(coded)}",
        "LM Studio": f"https://lmstudio.ai/install-mcp?{urlencode(coded)}",
    }


def add_install_links(text: str, about: dict[str, Any]) -> str:
    """Return the README with current install links and the name by which the MCP registry recognizes the package."""
    links = ", ".join(f"[{client}]({link})" for client, link in install_links(about).items())
    block = f"<!-- packages: mcp-name: {about['registry-name']} -->\n{links}\n<!-- /packages -->"
    return re.sub("<!-- packages: .*?<!-- /packages -->", lambda _: block, text, flags=re.DOTALL)


def create_bundle(folder: Path) -> None:
    """Create a directory with the content of the Claude Desktop bundle."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "plugin", "mcpb")
    for name in BUNDLED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / "manifest.json").write_text(as_json(bundle_manifest(description())), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
