"""`get_evaluation`: return an evaluation or a test run, or a part of it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, cast

from pydantic import Field

from codriver.core.evaluations import OCCUPYING_STATUSES, Evaluation
from codriver.core.print_limits import PrintLimits, ValuePart
from codriver.errors import RefusedError, refused
from codriver.log.evaluation_transcripts import Part, Transcript, read_transcripts
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.answers.answer_budget import cut_to_head, default_budget, requested_budget
from codriver.tools.answers.evaluation_answers import EVALUATION_SCHEMA, describe_evaluation, image_answer
from codriver.tools.answers.lean_answers import Evaluating, wants_detail
from codriver.tools.answers.text_parts import matching_lines, text_difference, text_excerpt
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Schema, remove_default
from codriver.tools.calls.evaluation_waits import find_evaluation, wait_for_evaluation
from codriver.tools.calls.hooks import complete_answer
from codriver.tools.calls.tool import Tool
from codriver.tools.chosen_evaluations import choose_evaluation
from codriver.tools.execution.test_runs import describe_run

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call


def _unavailable_value_error(evaluation: str, why: str) -> RefusedError:
    """Create the error for a part of a value that is no longer available or does not exist."""
    return refused(
        "forgotten",
        f"this part of the value of evaluation {evaluation} is not available: {why}",
        hint="Evaluate an expression for the part. maxLength and maxDepth limit how much of a value is printed.",
    )


PART_PATTERN: Final = r"^(result|std(out|err)|stacks|image-\d\d?)$"
"""Pattern for the values of `part` that are always available. Features add others."""


def _list_parts(schema: Schema) -> None:
    """Add the possible values of `part` to its schema, and remove the default."""
    remove_default(schema)
    schema["pattern"] = PART_PATTERN


def _unknown_part_error(call: Call, part: str) -> RefusedError:
    """Create the error for an unknown part of an evaluation."""
    known = ["result", "stdout", "stderr", "stacks", "image-N", *call.services.hooks.evaluation_parts]
    return refused("bad-arguments", f"an evaluation has no part {part!r}", hint=f"Its parts are {', '.join(known)}.")


class GetArguments(Evaluating):
    """The arguments of the tool `get_evaluation`."""

    requests_status: ClassVar[bool] = True

    evaluation_id: str | None = Field(None, description="Default: your newest.")
    wait_ms: int = Field(0, ge=0, le=600_000)
    part: str = Field("result", json_schema_extra=_list_parts)
    start: int | None = Field(None, alias="from", ge=0, description="First element or character, from 0.")
    length: int | None = Field(None, ge=0)
    grep: str | None = Field(None, min_length=1)
    diff_with: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """Id of another evaluation whose text or recorded calls to compare with."""
    path: list[int | str] | None = Field(None, description="Keys and indexes of a part of a cut value.")
    depth: int | None = Field(None, ge=1, le=1000, json_schema_extra={UNLISTED_KEY: True})
    max_images: int = Field(10, ge=0, json_schema_extra={UNLISTED_KEY: True})
    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """The session whose newest evaluation by the caller is meant, if `evaluation_id` is omitted."""
    report: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """For a test run: see `run_tests`."""


async def get_evaluation(call: Call, arguments: GetArguments) -> Answer:
    """Return an evaluation or a part of it, after waiting for it if requested."""
    current = choose_evaluation(call, arguments.evaluation_id, arguments.who, arguments.repl_session_key)
    if arguments.wait_ms and not current.is_finished:
        current = await wait_for_evaluation(call, current.id, arguments.wait_ms / 1000, owns=False)
    if (read_part := call.services.hooks.evaluation_parts.get(arguments.part)) is not None:
        return await read_part(call, current, arguments)
    if re.fullmatch(PART_PATTERN, arguments.part) is None:
        raise _unknown_part_error(call, arguments.part)
    if arguments.path is not None or arguments.depth is not None or _counts_elements(call, current, arguments):
        return await _read_part_of_value(call, current, arguments)
    if arguments.part.startswith("image-"):
        return await image_answer(call, current, int(arguments.part.removeprefix("image-")))
    length = arguments.length
    max_bytes = default_budget(call) if length is None else requested_budget(call, "get_evaluation")
    if arguments.part == "stacks" and current.status in OCCUPYING_STATUSES and not current.is_job:
        return await _current_stacks(call, current, arguments, max_bytes)
    selected = await _requested_part(call, current.id, arguments, max_bytes)
    if selected is not None:
        about = {"evaluationId": current.id} if wants_detail(call, arguments) else {}
        return Answer({**about, "status": current.status, **selected})
    if current.kind == "run-tests":
        return await describe_run(call, current, arguments, whole=arguments.report)
    answer = await describe_evaluation(call, current, arguments, max_images=arguments.max_images)
    return await complete_answer(call, answer, current.id)


def _counts_elements(call: Call, current: Evaluation, arguments: GetArguments) -> bool:
    """Return whether `from` and `length` refer to elements of a collection instead of characters.

    This is the case for a collection that was shortened and is still in its REPL.
    """
    is_ranged = arguments.start is not None or arguments.length is not None
    if arguments.part != "result" or not is_ranged or arguments.grep is not None or arguments.diff_with is not None:
        return False
    return any(is_available for _, is_available in _find_transcript(call, current.id).cuts.values())


async def _requested_part(
    call: Call, evaluation: str, arguments: GetArguments, max_bytes: int
) -> dict[str, object] | None:
    """Return the requested part of an evaluation's text, or None if the call requested the whole evaluation."""
    ranged = arguments.start is not None or arguments.length is not None or arguments.part != "result"
    if not ranged and arguments.grep is None and arguments.diff_with is None:
        return None
    transcript, work = _find_transcript(call, evaluation), call.services.work.editing
    if arguments.grep is not None:
        return await work.run(call.client, partial(matching_lines, transcript, arguments.grep, max_bytes=max_bytes))
    if arguments.diff_with is not None:
        other = _find_transcript(call, find_evaluation(call.state, arguments.diff_with).id)
        return await work.run(call.client, partial(text_difference, transcript, other, max_bytes=max_bytes))
    start, length = arguments.start or 0, arguments.length
    part = cast("Part", arguments.part)
    read_part = partial(text_excerpt, transcript, part, start=start, length=length, max_bytes=max_bytes)
    return await read_transcripts(read_part, transcript)


async def _read_part_of_value(call: Call, current: Evaluation, arguments: GetArguments) -> Answer:
    """Return a part of a value that was shortened. The REPL that retains the value prints the part."""
    settings, repl = call.services.live.settings, call.state.repls.get(current.repl)
    max_bytes = default_budget(call) if arguments.length is None else requested_budget(call, "get_evaluation")
    if repl is None or repl.generation != current.generation:
        raise _unavailable_value_error(current.id, "the REPL has been restarted or has ended")
    limits = PrintLimits(
        arguments.length or settings.max_length,
        arguments.depth or settings.max_depth,
        max_bytes,
        is_length_explicit=arguments.length is not None,
        is_depth_explicit=arguments.depth is not None,
    )
    start = arguments.start or 0
    part = ValuePart(tuple(arguments.path or ()), start, limits)
    description = await call.services.repls.adapter(repl.id).read_value(current.id, part)
    if isinstance(description, str):
        raise _unavailable_value_error(current.id, description)
    fields: dict[str, object] = {"evaluationId": current.id, "status": current.status, "result": description.text}
    if description.cut:
        fields["notes"] = [f"cut: {description.cut}"]
    if description.truncated:
        fields["notes"] = [f"only the first {max_bytes} bytes are included. Pass a smaller length or depth"]
    return Answer(fields)


async def _current_stacks(call: Call, current: Evaluation, arguments: GetArguments, max_bytes: int) -> Answer:
    """Return the current stacks of a REPL's threads and tasks, without interrupting them.

    Raises:
        CapabilityMissingError: the REPL cannot report stacks while code runs.
    """
    dump = await call.services.repls.read_stacks(current)
    if dump is None:
        raise CapabilityMissingError("stacks", "this REPL cannot report its stacks while code runs")
    start = arguments.start or 0
    text = cut_to_head(dump.whole[start : start + (arguments.length or max_bytes)], max_bytes).text
    about = {"evaluationId": current.id} if wants_detail(call, arguments) else {}
    fields = {**about, "status": current.status, "part": "stacks", "text": text, "from": start}
    return Answer({**fields, "totalCharacters": len(dump.whole)})


def _find_transcript(call: Call, evaluation: str) -> Transcript:
    """Return the stored output and values of an evaluation.

    Raises:
        RefusedError: they were discarded.
    """
    transcript = call.services.transcripts.get(evaluation)
    if transcript is None:
        raise refused(
            "forgotten",
            f"the output of evaluation {evaluation} was discarded, because too much has been evaluated since",
            hint="The newest lines may still be in repl_output_log.",
        )
    return transcript


TOOL = Tool(
    name="get_evaluation",
    title="Get evaluation",
    description=(
        "Wait for running code or tests (waitMs). Returns result and new output, or the rest of a cut answer."
    ),
    arguments=GetArguments,
    output=answer_schema(**EVALUATION_SCHEMA),
    run=get_evaluation,
    read_only=True,
    is_core=True,
)
