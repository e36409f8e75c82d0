"""The reasons: every word that an answer's `reason` can be, those of an application's seam among them."""

from __future__ import annotations

from typing import Final

SEAM_REASONS: Final = frozenset(
    {
        "no-such-accessor",
        "accessor-failed",
        "no-frame-resolved",
        "ambiguous-frame",
        "no-such-frame",
        "path-not-found",
        "no-such-epoch",
        "band-missing",
        "read-only-frame",
        "no-dispatch",
        "not-an-event-vector",
        "handler-failed",
        "during-drain",
        "unknown-epoch",
        "non-ok-record",
        "schema-mismatch",
        "missing-handler",
        "version-mismatch",
        "no-such-predicate",
        "unknown-topic",
        "too-many-subscriptions",
        "not-enabled",
    }
)
"""The closed list: every word by which a seam refuses."""

REASONS: Final = frozenset(
    {
        "ambiguous-session",
        "other-worktree",
        "bad-arguments",
        "bad-query",
        "bad-who",
        "busy",
        "capability-missing",
        "edits-refused",
        "docs-unavailable",
        "evaluation-failed",
        "file-changed",
        "file-unreadable",
        "file-unwritable",
        "forgotten",
        "internal-error",
        "interrupted",
        "no-code",
        "no-kernel",
        "no-repl",
        "no-tests",
        "not-a-repl",
        "not-interrupted",
        "not-waiting-for-input",
        "notebook-open",
        "nothing-to-undo",
        "repl-busy",
        "repl-disconnected",
        "repl-not-answering",
        "repl-stopped",
        "repl-unreachable",
        "request-unsafe",
        "stopping",
        "switched-off",
        "syntax-error",
        "tests-failed",
        "timed-out",
        "too-many-forms",
        "too-many-waits",
        "too-many-in-background",
        "too-much-code",
        "unbalanced",
        "unknown-cell",
        "unknown-evaluation",
        "unknown-namespace",
        "unknown-session",
        "unknown-symbol",
        "unknown-tool",
        "wrong-language",
        *SEAM_REASONS,
    }
)
"""The closed list: every word that an answer's `reason` can be."""
