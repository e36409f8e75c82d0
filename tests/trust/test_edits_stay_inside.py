"""Edits while a process exchanges a workspace directory for a link to the outside, as fast as it can."""

import contextlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from alike import rounds

from codriver.editing import CreateFile, Editor, EditRequest, SearchLimits
from codriver.errors import RefusedError
from codriver_lisp.edit import Append, Replace
from codriver_lisp.edit_targets import Target

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        sys.platform not in ("linux", "darwin"), reason="only Linux and macOS exchange two names at once"
    ),
]

ROUNDS = rounds(1000, 400)
"""Batches a test. Before folders were held open, one in a hundred and twenty ended outside."""
TEXTS = ("(def b 1)\n", "(def b 2)\n")

# The arguments are those of renameat2 with AT_FDCWD and RENAME_EXCHANGE, and of renamex_np with RENAME_SWAP.
EXCHANGE = """\
import ctypes, sys
one, other = (name.encode() for name in sys.argv[1:])
system = ctypes.CDLL(None, use_errno=True)
def exchange():
    if sys.platform == "linux":
        return system.renameat2(-100, one, -100, other, 2)
    return system.renamex_np(one, other, 2)
print(exchange(), flush=True)
while True:
    exchange()
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.clj").write_text(TEXTS[0])
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "link.clj").symlink_to(tmp_path / "outside" / "a.clj")
    return folder


@pytest.fixture
def outside(tmp_path):
    """Create what must not change: a file with the same name, so that only its location differs from the one inside."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.clj").write_text(TEXTS[0])
    return folder


@pytest.fixture(params=[("src", "link")], ids=["folder"])
def attack(request, workspace, outside):
    """Let another process swap the two names back and forth until the returned function is called."""
    command = [sys.executable, "-c", EXCHANGE, *(str(workspace / name) for name in request.param)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def end():
        process.kill()
        process.wait(60)
        process.stdout.close()

    try:
        if process.stdout.readline() != b"0\n":
            pytest.skip("this file system cannot exchange two names: put the temporary folder on another")
        yield end
    finally:
        end()


async def repeat(attempt, rounds=ROUNDS):
    """Repeat it so often, and until it has succeeded once; refusals do not matter."""
    done = 0
    with anyio.fail_after(300):
        for number in itertools.count():
            if done and number >= rounds:
                return
            with contextlib.suppress(RefusedError):
                await attempt(number)
                done += 1


def open_descriptors():
    return len(list(Path("/dev/fd").iterdir()))


def all_paths(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def change(old, new):
    return EditRequest("src/a.clj", Replace(Target(1, old.strip()), new.strip()))


@pytest.mark.parametrize(
    ("attack", "rounds"),
    [
        pytest.param(("src", "link"), ROUNDS, id="folder"),
        pytest.param(("src/a.clj", "link.clj"), ROUNDS // 5, id="file"),
    ],
    indirect=["attack"],
)
async def test_no_edit_is_written_outside_the_workspace_while_a_directory_and_a_link_are_exchanged(
    workspace, outside, attack, rounds
):
    editor = Editor(workspace)
    there_and_back = (change(*TEXTS), change(*TEXTS[::-1]))

    async def edit(number):
        await editor.edit("me", [there_and_back[number % 2]], limits=SearchLimits(), allow_outside=False)

    await repeat(edit, rounds)
    attack()
    assert (outside / "a.clj").read_text() == TEXTS[0]
    assert all_paths(outside) == ["a.clj"]


async def test_no_new_file_is_created_outside_the_workspace_or_left_half_written_inside_it(workspace, outside, attack):
    editor = Editor(workspace)

    async def create(number):
        expected = [
            EditRequest("src/a.clj", Append("(z)")),
            EditRequest(f"src/new{number}/deep/n.clj", CreateFile("(n)\n")),
        ]
        await editor.edit("me", expected, limits=SearchLimits(), allow_outside=False)

    await repeat(create)
    attack()
    assert all_paths(outside) == ["a.clj"]
    inside = [name for name in all_paths(workspace) if name.startswith(("src/", "link/"))]
    assert not [name for name in inside if name.endswith(".tmp")]
    made = {match[1] for name in inside if (match := re.search(r"(new\d+)", name))}
    whole = {match[1] for name in inside if (match := re.search(r"(new\d+)/deep/n\.clj", name))}
    assert made == whole


async def test_undo_writes_only_inside_the_workspace(workspace, outside, attack):
    editor = Editor(workspace)
    expected = [change(*TEXTS), EditRequest("src/n.clj", CreateFile("(n)\n"))]
    (outside / "n.clj").write_text("(n)\n")
    (outside / "a.clj").write_text(TEXTS[1])  # as an edit leaves it, so that taking it back would find it in order

    async def edit_and_undo(_number):
        with contextlib.suppress(RefusedError):
            await editor.edit("me", expected, limits=SearchLimits(), allow_outside=False)
        await editor.undo("me")

    await repeat(edit_and_undo)
    attack()
    assert (outside / "a.clj").read_text() == TEXTS[1]
    assert (outside / "n.clj").read_text() == "(n)\n"
    assert all_paths(outside) == ["a.clj", "n.clj"]


async def test_a_batch_of_many_files_uses_few_descriptors(workspace, monkeypatch):
    retained = []
    real = os.fsync

    def fsync(descriptor):
        retained.append(open_descriptors())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    before = open_descriptors()
    expected = [EditRequest(f"d{n}/x/n.clj", CreateFile("(n)\n")) for n in range(200)]
    await Editor(workspace).edit("me", expected, limits=SearchLimits(), allow_outside=False)
    assert len(all_paths(workspace)) >= 600
    assert max(retained) - before < 50
    assert open_descriptors() == before
