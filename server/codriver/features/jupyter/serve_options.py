"""The option `--kernel` of `codriver serve`."""

from __future__ import annotations

import copy
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from codriver.features.jupyter.kernels.named_kernels import split_key
from codriver.features.jupyter.settings import KERNELS_SETTING

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL_OPTION: Final = click.Option(
    ["--kernel"],
    multiple=True,
    metavar="[KEY=]FILE|URL",
    help=(
        "Connect to this Jupyter kernel, given as its connection file or its URL on a Jupyter Server. Can be repeated."
    ),
)


def extend_command(command: click.Command) -> click.Command:
    """Return a copy of the command `codriver serve` with the option `--kernel` before `--python`."""
    copied, callback = copy.copy(command), command.callback
    assert callback is not None  # noqa: S101  # it is a function with decorators
    index = [parameter.name for parameter in command.params].index("python")
    copied.params = [*command.params[:index], KERNEL_OPTION, *command.params[index:]]
    copied.callback = partial(_serve, callback)
    return copied


def _serve(serve: Callable[..., Any], /, *, kernel: tuple[str, ...], **options: Any) -> None:
    kernels = tuple(map(_absolute_location, kernel))
    serve(**options, added={KERNELS_SETTING.name: kernels} if kernels else {})


def _absolute_location(kernel: str) -> str:
    """Make a relative path in `[KEY=]FILE` absolute. Return `[KEY=]URL` unchanged."""
    key, location = split_key(kernel)
    if "://" not in location:
        location = os.path.abspath(os.path.expanduser(location))  # noqa: PTH100, PTH111  # symbolic links are not resolved
    return f"{key}={location}" if key else location
