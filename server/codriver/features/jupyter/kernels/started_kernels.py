"""Create connection files for the kernels that Codriver starts, and shut these kernels down.

A kernel's file keeps its ports and key when the kernel is restarted, so a person's console remains connected. It is in
Jupyter's runtime directory, where `jupyter console --existing` finds it, until the server ends.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from codriver import files
from codriver.errors import StartError
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX
from codriver.features.jupyter.kernels.kernel_ports import choose_ports
from codriver.files import Links
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

REPLY_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for a kernel's reply."""


def prepare_connection_file(file: Path, *, is_first: bool) -> None:
    """Write the connection file of a kernel that is about to be started. Blocks.

    If `is_first` is false and the file exists, it is reused.

    Raises:
        StartError: the file cannot be written.
    """
    from jupyter_client.connect import write_connection_file  # noqa: PLC0415  # slow, and an extra

    if not is_first and file.exists():
        return
    try:
        file.parent.mkdir(mode=files.PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        _remove_stale_files(file.parent)
        with contextlib.suppress(FileNotFoundError):
            _remove(file)
        content: dict[str, Any] = {"key": secrets.token_hex(32).encode(), **choose_ports()}
        write_connection_file(str(file), **content)
    except OSError as error:
        raise StartError(f"the kernel's connection file {file} cannot be written: {error}") from error


def remove_connection_file(file: Path) -> None:
    """Remove a connection file, if it exists. Blocks."""
    with contextlib.suppress(OSError):
        _remove(file)


def _remove(file: Path) -> None:
    with files.locate(file, Links.NEVER, root=file.parent, is_last_followed=False) as entry:
        entry.remove()


def _remove_stale_files(directory: Path) -> None:
    """Remove connection files left behind by servers that were killed."""
    for path in _stale_files(directory):
        with contextlib.suppress(OSError):
            _remove(path)


def _stale_files(directory: Path) -> Iterator[Path]:
    for path in directory.glob(f"{CODRIVER_PREFIX}*.json"):
        process, _, _ = path.name.removeprefix(CODRIVER_PREFIX).partition("-")
        if process.isdecimal() and not is_running(int(process)):
            yield path


async def shut_down_kernel(file: Path) -> None:
    """Ask a kernel to shut down, so that its exit handlers run. Never raises."""
    try:
        await anyio.to_thread.run_sync(_request_shutdown, file, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001  # the caller terminates the kernel anyway
        logger.info("could not request the shutdown of the kernel with the connection file %s: %r", file, error)


def _request_shutdown(file: Path) -> None:
    """Send the shutdown request and wait for the reply.

    Source: Jupyter messaging protocol 5.4, "Kernel shutdown", on the control channel.
    """
    from jupyter_client.blocking.client import BlockingKernelClient  # noqa: PLC0415  # slow, and an extra

    client = BlockingKernelClient()
    try:
        client.load_connection_file(str(file))
        client.control_channel.start()
        client.shutdown()
        client.control_channel.get_msg(timeout=REPLY_TIMEOUT_S)
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)
