"""The connection files of kernels that Codriver starts, and the shutdown of such a kernel.

A kernel's file keeps its ports and key when the kernel is restarted, so that a person's console remains connected. It
is in Jupyter's runtime directory, where `jupyter console --existing` finds it, until the server ends.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from codriver import files
from codriver.errors import StartError
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX
from codriver.files import Links
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

ANSWER_S: Final = 2.0


def prepare(file: Path, *, is_first: bool) -> None:
    """Write the file before a kernel's first start. Later starts use the same file. May wait for a disk.

    Raises:
        StartError: the file cannot be written.
    """
    from jupyter_client.connect import write_connection_file  # noqa: PLC0415  # slow, and an extra

    if not is_first and file.exists():
        return
    try:
        file.parent.mkdir(mode=files.PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        _remove_those_of_the_dead(file.parent)
        with contextlib.suppress(FileNotFoundError):
            _remove(file)
        write_connection_file(str(file), key=secrets.token_hex(32).encode())
    except OSError as error:
        raise StartError(f"the connection file {file} of a kernel cannot be written: {error}") from error


def discard(file: Path) -> None:
    """Remove a file, if it exists. May wait for a disk."""
    with contextlib.suppress(OSError):
        _remove(file)


def _remove(file: Path) -> None:
    with files.locate(file, Links.NEVER, root=file.parent, is_last_followed=False) as entry:
        entry.remove()


def _remove_those_of_the_dead(directory: Path) -> None:
    """Remove the leftovers of killed servers."""
    for path in _of_the_dead(directory):
        with contextlib.suppress(OSError):
            _remove(path)


def _of_the_dead(directory: Path) -> Iterator[Path]:
    for path in directory.glob(f"{CODRIVER_PREFIX}*.json"):
        process, _, _ = path.name.removeprefix(CODRIVER_PREFIX).partition("-")
        if process.isdecimal() and not is_running(int(process)):
            yield path


async def shut_down(file: Path) -> None:
    """Ask the kernel of a connection file to end, so that its exit handlers run; never raises."""
    try:
        await anyio.to_thread.run_sync(_request_shutdown, file, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001  # the kernel is ended all the same, whatever the fault
        logger.info("the kernel of %s was not asked to end: %r", file, error)


def _request_shutdown(file: Path) -> None:
    """Ask, and wait for the answer.

    Source: Jupyter messaging protocol 5.4, "Kernel shutdown", on the control channel.
    """
    from jupyter_client.blocking.client import BlockingKernelClient  # noqa: PLC0415  # slow, and an extra

    client = BlockingKernelClient()
    try:
        client.load_connection_file(str(file))
        client.control_channel.start()
        client.shutdown()
        client.control_channel.get_msg(timeout=ANSWER_S)
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)
