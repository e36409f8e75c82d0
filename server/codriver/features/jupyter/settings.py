"""The setting `kernels`: Jupyter kernels to connect to.

It is ignored in workspace settings, because it determines which server receives a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.settings.declared import DeclaredSetting

if TYPE_CHECKING:
    from pydantic import ValidationError


def _annotation() -> Any:
    from codriver.features.jupyter.kernel_entries import NamedKernelEntry  # noqa: PLC0415  # with the settings alone

    return tuple[NamedKernelEntry, ...]


def _describe_error(error: ValidationError) -> str:
    from codriver.features.jupyter.kernel_entries import first_error  # noqa: PLC0415  # as above

    return first_error(error)


KERNELS_SETTING: Final[DeclaredSetting[Any]] = DeclaredSetting(
    "kernels",
    (),
    "Jupyter kernels to connect to: files, URLs, or tables [[kernels]].",
    needs_restart=True,
    annotation=_annotation,
    allowed="a list of strings like [KEY=]FILE or [KEY=]URL, or of tables [[kernels]]",
    describe_error=_describe_error,
    reason_ignored="is ignored in a workspace's file, because it decides which server receives a token. Move it to "
    "your user settings or the command line",
    extends=True,
    grows=True,
    variables=("CODRIVER_KERNEL_TOKEN",),
)
