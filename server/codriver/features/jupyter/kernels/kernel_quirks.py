"""Differences between kernel implementations.

They are listed by the implementation name in `kernel_info_reply`, because the protocol version, `supported_features`
and a kernelspec's `interrupt_mode` are unreliable. Each entry describes behavior that was observed in that kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


InterruptBy = Literal["message", "signal", "none"]
"""How a kernel is interrupted. See `Quirks.interrupt_by`."""
SyntaxCheck = Literal["complete", "incomplete", "none", "unseen"]
"""How reliable a kernel's syntax check is. See `Quirks.syntax_check`."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """The ways in which a kernel implementation deviates from the protocol."""

    interrupt_by: InterruptBy = "message"
    """How the kernel is interrupted: by an `interrupt_request` on the control socket (`message`), by SIGINT to its
    process group (`signal`), or not at all (`none`).
    """
    interrupt_note: str = ""
    """The limitations of interrupts, or the reason why the kernel cannot be interrupted."""
    survives_signal: bool = False
    """Whether SIGINT can be sent to the kernel as well without ending it. If the kernel's process is known, the signal
    also reaches child processes that the kernel is waiting for.
    """
    late_value_s: float = 0.0
    """How long after the end of an evaluation its value may still be received, in seconds."""
    displays_values: bool = False
    """Whether values are sent as `display_data`, never as `execute_result`."""
    supports_expressions: bool = False
    """Whether the kernel runs Python and answers `user_expressions`."""
    reads_input: bool = True
    """Whether code that reads from stdin gets input. Otherwise, the code reads nothing and may wait forever."""
    syntax_check: SyntaxCheck = "unseen"
    """How reliable `is_complete_request` is. `complete`: for all code. `incomplete`: only if the reply is `incomplete`,
    because invalid code may be reported as `complete`. `none`: the kernel does not know. `unseen`: not verified, so
    code is sent without being checked. Octave's kernel reports whole lines as incomplete and runs them, and SoS reports
    all code as incomplete.
    """
    supports_inspect: bool = True
    """Whether the kernel describes names in response to `inspect_request`. Otherwise, it never finds a name."""
    answers_on_control: bool = True
    has_subshells: bool = False
    """Whether the kernel may have subshells. `create_subshell_request` shows whether it does."""
    reports_process: bool = False
    """Whether the kernel answers `usage_request`."""
    notes: tuple[str, ...] = ()
    """Notes for users, in full sentences."""


_IPYTHON_QUIRKS: Final = Quirks(
    survives_signal=True,
    reports_process=True,
    supports_expressions=True,
    syntax_check="complete",
    has_subshells=True,
)

QUIRKS_BY_IMPLEMENTATION: Final[Mapping[str, Quirks]] = MappingProxyType(
    {
        "ipython": _IPYTHON_QUIRKS,
        "xeus-python": Quirks(
            interrupt_by="none",
            interrupt_note="xeus-python cannot be interrupted, because it ignores interrupt messages, and an interrupt "
            "signal ends its process. Only a restart stops its code",
            supports_expressions=True,
            syntax_check="complete",
            notes=("xeus-python cannot be interrupted, and the output of child processes is lost",),
        ),
        "bash_kernel": Quirks(
            survives_signal=True,
            reads_input=False,
            supports_inspect=False,
            syntax_check="none",
            notes=("a value is the output of a command, and code that reads from stdin gets no input",),
        ),
        "IRkernel": Quirks(
            interrupt_by="signal",
            interrupt_note="the R kernel can only be interrupted by a signal, but its process is not known",
            displays_values=True,
            syntax_check="complete",
            answers_on_control=False,
        ),
        "Deno kernel": Quirks(
            interrupt_note="an interrupted `await` blocks the Deno kernel until it is restarted",
            late_value_s=0.05,
            syntax_check="incomplete",
            supports_inspect=False,
        ),
        "tslab": Quirks(interrupt_by="signal", syntax_check="incomplete"),
        "scheme": Quirks(survives_signal=True, syntax_check="incomplete"),
        "Octave Kernel": Quirks(
            survives_signal=True,
            notes=("a call that fails is reported only in the output, and its evaluation has the status done",),
        ),
    }
)
"""Quirks by `implementation`. Other kernels are expected to follow the protocol."""


def find_quirks(implementation: str) -> Quirks:
    """Return the known quirks of an implementation, or the defaults for an unknown one."""
    return QUIRKS_BY_IMPLEMENTATION.get(implementation, Quirks())
