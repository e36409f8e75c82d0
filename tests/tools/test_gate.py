"""The refusal of a tool that no connected REPL supports: it says whether to wait, or why no REPL does."""

import anyio
import anyio.lowlevel
import pytest
from all_tools import BY_NAME

from codriver.core.actions import AddRepl, PortFilesScanned, ReplConnected
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.state import Lifecycle, Origin, Repl, State
from codriver.settings.model import Settings
from codriver.tools.calls.gate import await_start, why_unavailable

FAILED = "the REPL started by `lein` exited before it opened a port"


@pytest.mark.parametrize(
    ("phase", "note", "hint"),
    [
        ("starting", None, "the REPL clj is starting. Call again"),
        ("waiting", FAILED, f"no connected REPL supports run_tests (clj: {FAILED}): start one"),
        ("stopped", FAILED, f"no connected REPL supports run_tests (clj: {FAILED}): start one"),
    ],
)
def test_the_refusal_suggests_waiting_for_a_starting_repl_or_explains_why_one_failed(phase, note, hint):
    repl = Repl("1", "clj", Origin("process", "lein"), phase=phase, note=note)
    refused = why_unavailable(BY_NAME["run_tests"], State(repls={"1": repl}), Settings())
    assert refused is not None
    assert refused.hint.startswith(hint)


@pytest.mark.parametrize(
    ("languages", "repl", "setting", "named"),
    [
        ({"lisp"}, "clojure", (), "set repl = ['clojure'] in codriver.toml"),
        ({"lisp"}, "", (), "set repl in codriver.toml"),
        (set(), "", (), "set repl = ['python'] in codriver.toml"),
        ({"lisp"}, "clojure", ("clojure",), None),
    ],
)
def test_without_a_repl_the_refusal_suggests_the_setting_for_the_projects_files(languages, repl, setting, named):
    state = State(languages_of_files=frozenset(languages), repl_of_files=repl)
    refused = why_unavailable(BY_NAME["evaluate_code"], state, Settings(repl=setting))
    assert refused is not None
    assert "Codriver will find it by its port file within a second" in refused.hint
    assert (named or "start one") in refused.hint
    assert ("codriver.toml" in refused.hint) == (named is not None)


@pytest.mark.anyio
async def test_a_call_waits_until_port_files_are_read():
    life = Lifecycle(phase="started", session_id="abcdef")
    performers = dict.fromkeys(EFFECTS, lambda _effect: None)
    core = Core(
        state=State(lifecycle=life),
        settings=Settings(),
        now=lambda: 1000,
        handlers=HANDLERS,
        performers=lambda _: performers,
    )
    core.report(PortFilesScanned(has_unread=True))

    async def read_them():
        await anyio.lowlevel.checkpoint()
        found = AddRepl("file:app", "app", Origin("port-file", "app"), "127.0.0.1:1")
        core.report(found, PortFilesScanned(has_unread=False))
        profile = Profile(dialect="python", capabilities={"seam": Capability("native")})
        core.report(ReplConnected("file:app", profile, "127.0.0.1:1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_them)
        assert await await_start(BY_NAME["inspect_app"], core, Settings(), most_s=60) is None
