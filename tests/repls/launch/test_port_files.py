import os
from contextlib import aclosing

import anyio
import pytest

from codriver.repls.kinds import port_file_names as known_port_files
from codriver.repls.launch import port_files
from codriver.repls.launch.port_files import FoundPortFile, watch_port_files

pytestmark = pytest.mark.anyio


async def scan(folder, names=None):
    """Return the current port files of a directory."""
    # Whoever uses it for real never ends it.
    async with aclosing(watch_port_files(folder, names or known_port_files())) as looks:  # type: ignore[type-var]
        return await anext(looks)


def summary(found):
    return [(item.port, item.key, bool(item.error)) for item in found]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


async def test_port_files_with_known_names_are_found(tmp_path):
    write(tmp_path / ".nrepl-port", b"7001")
    write(tmp_path / ".shadow-cljs/nrepl.port", b"7002\n")
    assert summary(await scan(tmp_path)) == [(7001, "nrepl", False), (7002, "cljs", False)]


async def test_no_port_files_are_found_in_an_empty_workspace(tmp_path):
    assert await scan(tmp_path) == ()


async def test_each_project_in_a_monorepo_has_its_own_session_key(tmp_path):
    write(tmp_path / "apps/web/.shadow-cljs/nrepl.port", b"7003")
    write(tmp_path / "a/b/c/.nrepl-port", b"7004")
    assert summary(await scan(tmp_path)) == [(7004, "c-nrepl", False), (7003, "web-cljs", False)]


@pytest.mark.parametrize("folder", ["node_modules/x", ".git", "target", ".venv/lib", "a/b/c/d"])
async def test_directories_that_contain_no_project_are_not_searched(tmp_path, folder):
    write(tmp_path / folder / ".nrepl-port", b"7005")
    assert await scan(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"abc", "'abc'"),
        (b"0", "'0'"),
        (b"65536", "'65536'"),
        (b"-1", "'-1'"),
        ("١٢".encode(), "does not contain a port"),
        (b"\xff\xfe", "does not contain a port"),
        (b"1" * 100, "does not contain a port"),
    ],
)
async def test_an_invalid_port_file_is_reported(tmp_path, text, words):
    write(tmp_path / ".nrepl-port", text)
    (found,) = await scan(tmp_path)
    assert found.port is None
    assert words in found.error


async def test_a_directory_in_place_of_a_port_file_is_reported(tmp_path):
    (tmp_path / ".nrepl-port").mkdir()
    assert "cannot be read" in (await scan(tmp_path))[0].error


async def test_custom_file_names_are_searched_for(tmp_path):
    write(tmp_path / "sub/my.port", b"7006")
    write(tmp_path / ".nrepl-port", b"7007")
    assert [found.port for found in await scan(tmp_path, ("my.port",))] == [7006]


async def test_a_circular_link_is_not_followed_forever(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    write(tmp_path / ".nrepl-port", b"7008")
    assert len(await scan(tmp_path)) == 1


async def test_each_change_of_a_port_file_is_reported_once(tmp_path):
    file = tmp_path / ".nrepl-port"
    steps = []
    with anyio.fail_after(60):
        async for found in watch_port_files(tmp_path, known_port_files(), interval_s=0.01):
            steps.append([item.port for item in found])
            if len(steps) == 1:
                file.write_bytes(b"7009")
            elif len(steps) == 2:
                file.write_bytes(b"7010")
                os.utime(file, ns=(1, 1))
            elif len(steps) == 3:
                file.unlink()
            else:
                break
    assert steps == [[], [7009], [7010], []]


async def test_rewriting_a_port_file_with_the_same_port_counts_as_a_change(tmp_path):
    file = tmp_path / ".nrepl-port"
    write(file, b"7011")
    seen = []
    with anyio.fail_after(60):
        async for found in watch_port_files(tmp_path, known_port_files(), interval_s=0.01):
            seen.append(found)
            if len(seen) == 2:
                break
            os.utime(file, ns=(5, 5))
    assert [item[0].port for item in seen] == [7011, 7011]
    assert seen[1][0].written_ns == 5


async def test_a_project_is_watched_before_it_has_a_port_file(tmp_path, monkeypatch):
    monkeypatch.setattr(port_files, "CHECKS_PER_RESCAN", 10**9)
    write(tmp_path / "services/billing/deps.edn", b"{}")
    write(tmp_path / "services/web/.shadow-cljs", b"a file where a folder is expected")
    write(tmp_path / "services/web/package.json", b"{}")
    file = tmp_path / "services/billing/.nrepl-port"
    with anyio.fail_after(60):
        async for found in watch_port_files(tmp_path, known_port_files(), interval_s=0.01):
            if found:
                break
            write(file, b"7013")
    assert summary(found) == [(7013, "billing-nrepl", False)]


async def test_a_project_created_later_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(port_files, "CHECKS_PER_RESCAN", 2)
    with anyio.fail_after(60):
        async for found in watch_port_files(tmp_path, known_port_files(), interval_s=0.01):
            if found:
                break
            write(tmp_path / "late/.nrepl-port", b"7012")
    assert found[0] == FoundPortFile(
        tmp_path / "late/.nrepl-port", 7012, None, "late-nrepl", (tmp_path / "late/.nrepl-port").stat().st_mtime_ns
    )
