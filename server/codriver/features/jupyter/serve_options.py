"""The option of `codriver serve` that names kernels: `--kernel`."""

from __future__ import annotations

import copy
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from codriver.features.jupyter.kernels.named_kernels import split_key
from codriver.features.jupyter.settings import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL: Final = click.Option(
    ["--kernel"],
    multiple=True,
    metavar="[KEY=]FILE|URL",
    help="Connect to this Jupyter kernel: its connection file, or its URL on a Jupyter Server. Can be repeated.",
)


def extended(command: click.Command) -> click.Command:
    """Return a copy of `codriver serve` with this option, which stands before `--python`."""
    found, callback = copy.copy(command), command.callback
    assert callback is not None  # noqa: S101  # it is a function with decorators
    at = [one.name for one in command.params].index("python")
    found.params = [*command.params[:at], KERNEL, *command.params[at:]]
    found.callback = partial(_serve, callback)
    return found


def _serve(serve: Callable[..., Any], /, *, kernel: tuple[str, ...], **given: Any) -> None:
    kernels = tuple(map(_from_here, kernel))
    serve(**given, added={KERNELS.name: kernels} if kernels else {})


def _from_here(kernel: str) -> str:
    """`[KEY=]FILE|URL` with the file's path from the current directory on."""
    key, location = split_key(kernel)
    if "://" not in location:
        location = os.path.abspath(os.path.expanduser(location))  # noqa: PTH100, PTH111  # links stay as they are
    return f"{key}={location}" if key else location
