"""Differences between kernel implementations.

They are listed by the implementation's name in `kernel_info_reply`, because the protocol version, `supported_features`
and a kernelspec's `interrupt_mode` are not reliable. Each entry was observed with that kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


InterruptBy = Literal["message", "signal", "none"]
Gate = Literal["complete", "incomplete", "none", "unseen"]


@dataclass(frozen=True, slots=True)
class Quirks:
    """The peculiarities of one implementation."""

    interrupt_by: InterruptBy = "message"
    """`message`: an `interrupt_request` on control. `signal`: SIGINT to its process group. `none`: neither stops it."""
    interrupt_note: str = ""
    """A sentence on the limits of an interrupt, or why there is none."""
    survives_signal: bool = False
    """A signal interrupts the kernel too; if its process is known, the signal also reaches child processes that it
    waits for.
    """
    late_value_s: float = 0.0
    """The time after the end of an evaluation in which its value may still come."""
    shows_values: bool = False
    """Values come as `display_data`, never as `execute_result`."""
    runs_expressions: bool = False
    """True of a kernel that answers `user_expressions`: it runs Python."""
    reads_input: bool = True
    """Code that reads from stdin gets it from us; else it reads nothing and may wait for ever."""
    gate: Gate = "unseen"
    """The worth of `is_complete`. `complete`: right about all code. `incomplete`: right where it says `incomplete`, but
    invalid code may be `complete` to it. `none`: it never knows. `unseen`: nobody has seen that its word is right, so
    its code runs unasked; Octave's kernel calls whole lines incomplete and runs them, and SoS calls everything so."""
    inspects: bool = True
    """True of a kernel that tells of names by `inspect_request`; any other never finds one."""
    answers_on_control: bool = True
    has_subshells: bool = False
    """True of a kernel that may have subshells: `create_subshell_request` tells."""
    reports_process: bool = False
    """True of a kernel that answers `usage_request`."""
    notes: tuple[str, ...] = ()
    """Sentences a user should know."""


_IPYTHON: Final = Quirks(
    survives_signal=True,
    reports_process=True,
    runs_expressions=True,
    gate="complete",
    has_subshells=True,
)

QUIRKS: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "ipython": _IPYTHON,
        "xeus-python": Quirks(
            interrupt_by="none",
            interrupt_note="xeus-python cannot be interrupted: the message does nothing, and a signal ends it; only a "
            "restart of the kernel stops its code",
            runs_expressions=True,
            gate="complete",
            notes=("xeus-python cannot be interrupted; what child processes print is lost",),
        ),
        "bash_kernel": Quirks(
            survives_signal=True,
            reads_input=False,
            inspects=False,
            gate="none",
            notes=("values are what commands print; code that reads gets no input",),
        ),
        "IRkernel": Quirks(
            interrupt_by="signal",
            interrupt_note="the R kernel takes no interrupt by message, and its process is not known here",
            shows_values=True,
            gate="complete",
            answers_on_control=False,
        ),
        "Deno kernel": Quirks(
            interrupt_note="an interrupted `await` leaves the Deno kernel stuck for good: then only a restart helps",
            late_value_s=0.05,
            gate="incomplete",
            inspects=False,
        ),
        "tslab": Quirks(interrupt_by="signal", gate="incomplete"),
        "scheme": Quirks(survives_signal=True, gate="incomplete"),
        "Octave Kernel": Quirks(
            survives_signal=True, notes=("a failed call is told as output only, and the evaluation counts as done",)
        ),
    }
)
"""By `implementation`; other kernels are taken to follow the protocol."""


def quirks_of(implementation: str) -> Quirks:
    """Return the quirks of an implementation, as far as they are known."""
    return QUIRKS.get(implementation, Quirks())
