"""Families of REPLs, clients and settings that are so alike that a test usually passes for all of them or for none.

A test that is parametrized over a family runs for one member only. Different tests run for different members, so
that each member is still tested with most of what is special about it. With `CODRIVER_TESTS=all`, or if tests are
named on the command line, a test runs for all members.
"""

import os
from collections import defaultdict
from functools import cache
from zlib import crc32

import needs

REPLS = (("jvm", "leiningen", "tools.nrepl"), ("lisp", "basilisp"), ("ipykernel", "xpython"))
CLIENTS = (("copilot", "claude-code", "gemini", "opencode", "codex", "qwen"),)
WHOLE_AGENTS = (("copilot", "opencode", "gemini", "claude-code", "codex", "qwen"),)
LISTING = (("gemini", "opencode", "codex", "claude-code", "copilot", "qwen"),)
"""Ordered so that each client is chosen, and quick tests choose slow ones. Cline, droid and auggie are alone."""
PATHS_OF_PYTHON = ("relative", "trailing colon", "its own path", "a link")
"""PYTHONPATHs that lead into a checkout."""
HEAVY_NOTEBOOKS = (
    ("790,000 small cells", "20 million brackets", "without nbformat"),
    ("not in UTF-8", "a number that is too long"),
)
FLOODS_OF_A_KERNEL = (
    ("one print", "one display"),
    ("displays without end", "prints without end"),
    ("one gib of buffers", "one gib before the message", "three million parts"),
)
SHAPES_OF_A_CHECKOUT = (
    ("link to a secret", "link to /dev/zero", "link to /dev/ptmx", "link in /proc"),
    ("presence", "project", "all"), ("ZIP_BZIP2", "ZIP_LZMA", "ZIP_DEFLATED"), ("127.0.0.1", "0.0.0.0", "localhost"),
)  # fmt: skip
APPLICATIONS = ("jvm", "basilisp", "hy", "ipykernel", "nbb")
"""REPLs whose applications have the same seam, or which report their tests to the page."""
PYTHONS = (("python3.9", "python3.10"), ("python3.11", "python3.12", "python3.13"))
"""Versions of Python between the oldest one and Codriver's own, and later ones."""
PROJECTS = (
    ("venv", "uv", "poetry", "conda"), ("Django", "Flask", "notebooks", "mono repo"), ("deps.edn", "Leiningen"),
)  # fmt: skip
CHOOSING = (
    ("clients/test_conformance.py", (("the plain way", "the SDK alone"),)),
    ("clients/test_client_libraries.py", (("openai_agents", "fastmcp", "langchain"),)),
    ("clients/test_trust_question.py", (("cancel", "decline", "empty", "other", "never"),)),
    ("docs/test_ci_recipe.py", (("python", "lisp"),)),
    ("features/page/test_page_server.py", (APPLICATIONS,)),
    ("repls/worker/test_interpreters.py", PYTHONS),
    ("seam/test_copies.py", PYTHONS),
    ("seam/test_other_repls.py", (APPLICATIONS,)),
    ("trust/test_unaccepted_projects.py", PROJECTS),
    ("setup/test_real_agents.py", WHOLE_AGENTS),
    ("setup/test_real_clients.py", LISTING),
    ("setup/test_real_restarts.py", (*CLIENTS, ("modern", "handshake"))),
    ("setup/test_real_", CLIENTS),
    ("repls/test_adapter_", REPLS),
    ("trust/test_python_path.py", (PATHS_OF_PYTHON,)),
    ("trust/test_planted_modules.py", ((".", "{0}/elsewhere:", "{0}/workspace"),)),
    ("trust/test_cancellation.py", (("asyncio", "uvloop"),)),
    ("trust/test_hostile_checkout.py", SHAPES_OF_A_CHECKOUT),
    ("tools/test_affected_tests.py", (("python3.11", "python3.12"),)),
    ("trust/test_starving.py", HEAVY_NOTEBOOKS),
    ("trust/test_kernel_floods.py", FLOODS_OF_A_KERNEL),
)
"""Families from which each test chooses for itself, by the beginning of the path. Other tests share what they start."""
SEED = "352"
"""With this seed, each REPL, client and path of a family is chosen by some test, and the slow ones by few tests."""


def is_whole(config):
    """Return whether all members should run."""
    named = config.option.keyword or any("::" in argument for argument in config.args)
    return bool(named) or runs_all_members()


def runs_all_members():
    """Return whether everything should run, as on CI."""
    return os.environ.get("CODRIVER_TESTS") == "all"


def rounds(all_of_them, some):
    """Return how many rounds a repetitive test runs: all of them with `CODRIVER_TESTS=all`, otherwise fewer."""
    return all_of_them if runs_all_members() else some


def first_and_last(members):
    """Return the first and the last of several similar things, such as the items of a list, or all of them if all
    tests run.
    """
    return members if runs_all_members() or len(members) < 2 else [members[0], members[-1]]


@cache
def may_run(member):
    """Return whether a Python that not everybody has may be installed; anything else is assumed to be."""
    return not member.startswith("python3.") or bool(needs.candidates(member))


def omitted_tests(items, path_of):
    """Return the tests for which another member of their family runs. `path_of` returns a test's path below `tests`."""
    groups = defaultdict(list)
    for item in items:
        path = path_of(item)
        families = next((families for start, families in CHOOSING if path.startswith(start)), None)
        for family in families or REPLS:
            for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
                if isinstance(value, str) and value in family:
                    chooser = path + (item.name.replace(value, "", 1) if families else "")
                    groups[chooser, family].append((value, item))
    out = set()
    for (chooser, family), members in groups.items():
        there = [member for member in family if any(value == member for value, _ in members) and may_run(member)]
        there = there or [value for value, _ in members]
        chosen = there[crc32(f"{SEED}{chooser}".encode()) % len(there)]
        out |= {item for value, item in members if value != chosen}
    return out
