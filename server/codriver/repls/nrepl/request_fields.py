"""The fields of requests that evaluate code, limited to those that the server understands.

Source: nREPL documentation, "Ops", `eval` and `load-file`. Fields that start with `codriver/` are for Codriver's
worker.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.adapter import unsafe_request_error
from codriver.repls.nrepl.replies import STORED_VALUE_OP
from codriver_lisp.requirements import declared_namespace, ns_form
from codriver_lisp.source_text import Document

if TYPE_CHECKING:
    from codriver.core.print_limits import PrintLimits
    from codriver.core.requests import Form, Request
    from codriver.repls.contract.companions import EvaluationSteps
    from codriver.repls.contract.evaluation_extensions import Rewrite
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.probe import ProbeResult
    from codriver.repls.nrepl.session_pool import NreplSession
    from codriver.repls.nrepl.undo_records import UndoRecords
    from codriver.wire.bencode import Value

NS_FORM_PATTERN: Final = re.compile(r"\(\s*ns\s")
"""Matches the start of the only form that enters a namespace in nbb."""


def defines_its_namespace(request: Request, dialect: Dialect) -> bool:
    """Return whether the code starts with an `ns` or `in-ns` form for the namespace that the request names."""
    first = request.sent_forms[0].text
    if request.namespace is None or "ns" not in first:
        return False
    document = Document(first)
    header = ns_form(document)
    if header is None or declared_namespace(document) != request.namespace:
        return False
    return dialect.namespace_by != "ns" or NS_FORM_PATTERN.match(first, header.start) is not None


def preserve_loaders(session: NreplSession, code: str) -> None:
    """Keep the class loaders of a session from now on if the code mentions class loaders."""
    if not session.preserves_loaders and "Loader" in code:
        session.preserves_loaders, session.prints_to = True, None


class RequestFields:
    """Creates the fields of requests to one server."""

    def __init__(self, probed: ProbeResult, undo_records: UndoRecords, steps: EvaluationSteps) -> None:
        self._probed = probed
        self._dialect = probed.dialect
        self._undo_records = undo_records
        self._steps = steps

    def check_code(self, code: str) -> None:
        """Check that the server can process the code.

        Raises:
            RefusedError: the code would break the server.
        """
        limit = self._dialect.unsafe_bytes
        if limit is None or code.isascii():
            return
        if (size := len(code.encode("utf-8", "surrogatepass"))) > limit:
            raise unsafe_request_error(
                f"{self._dialect.name} loses characters that are not ASCII, or never answers, when a request is longer "
                f"than {limit} bytes, and this one has {size}",
                hint=(
                    "put the code into a file and evaluate a short form that loads it, or send the code in smaller "
                    "parts"
                ),
            )

    def fields_for_form(
        self,
        request: Request,
        form: Form,
        limits: PrintLimits,
        session: NreplSession,
        rewrite: Rewrite | None = None,
    ) -> dict[str, Value]:
        """Return the fields for a request that evaluates one form in a session. `rewrite` may change them."""
        fields: dict[str, Value] = {"code": form.text, **self._common_fields(request, limits, session, rewrite)}
        if request.frame is not None:
            fields["frame"] = request.frame
            if request.is_in_test:
                fields["test"] = 1
        if request.namespace and self._dialect.namespace_by == "key":
            fields["ns"] = request.namespace
        if request.file:
            fields["file"] = request.file
            if self._probed.file_evaluator:
                fields["eval"] = self._probed.file_evaluator
        elif session.is_in_file and self._dialect.no_file:
            fields["file"] = self._dialect.no_file
        if not self._probed.accepts_positions:
            fields["code"] = "\n" * (form.line - 1) + " " * (form.column - 1) + form.text
        elif (form.line, form.column) != (1, 1) or not self._dialect.accepts_missing_position:
            fields["line"], fields["column"] = form.line, form.column
        return rewrite(fields) if rewrite is not None else fields

    def fields_for_file(self, request: Request, limits: PrintLimits, session: NreplSession) -> dict[str, Value]:
        """Return the fields for a request that loads a whole file in a session."""
        path = request.file or ""
        fields: dict[str, Value] = {
            "file": request.code,
            "file-path": path,
            "file-name": path.rpartition("/")[2],
            **self._common_fields(request, limits, session),
        }
        if request.lines is not None:
            fields["codriver/lines"] = list(request.lines)
        if request.how:
            fields["codriver/how"] = request.how
        return fields

    def remembers_limits(self, limits: PrintLimits) -> bool:
        """Return whether a session remembers these print limits.

        It remembers default limits, but not limits set for one request.
        """
        return self._probed.stores_print_limits and not (limits.is_length_explicit or limits.is_depth_explicit)

    def _common_fields(
        self, request: Request, limits: PrintLimits, session: NreplSession, rewrite: Rewrite | None = None
    ) -> dict[str, Value]:
        """Return the fields that all requests have, including those of extensions and companions."""
        fields: dict[str, Value] = {}
        if self._probed.honours_print_limits:
            stores = STORED_VALUE_OP in self._probed.ops
            if limits != session.prints_to or rewrite is not None:
                fields = self._dialect.print_fields(
                    limits,
                    knows_defaults=stores,
                    for_session=self.remembers_limits(limits),
                    preserves_loaders=session.preserves_loaders,
                )
            if stores:
                fields["codriver/keep"] = request.id
        for extension in request.extensions:
            fields.update(extension.fields)
        if request.is_partial:
            fields["codriver/partial"] = 1
        if request.undo_id:
            fields |= self._undo_records.load_fields(request.undo_id)
        if self._steps.fields:
            fields |= self._steps.additional_fields(request)
        return fields
