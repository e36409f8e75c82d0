"""`codriver doctor` as a function: looks at everything that has to fit together, and says what mends what does not."""

from codriver.setup.doctor.checks import Ask, diagnose
from codriver.setup.doctor.relay_check import NAME
from codriver.setup.doctor.report import (
    Check,
    ReplReport,
    Report,
    Row,
)

__all__ = ["NAME", "Ask", "Check", "ReplReport", "Report", "Row", "diagnose"]
