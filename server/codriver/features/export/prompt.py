"""The MCP prompt that asks an agent to turn a session into a test."""

from __future__ import annotations

from typing import Final

from codriver.server_hooks import Prompt

SESSION_TO_TEST: Final = Prompt(
    "session_to_test",
    "Make a test of this session",
    "Turn what was evaluated into a test file that is verified in a fresh REPL.",
    "Make a test file of what was evaluated: {what}. Find the evaluations with repl_output_log (entities carry "
    "evaluation, description and who); choose those that show what the code promises, with what they need before "
    "them. Ask whether that code may run again, with all its effects, in a fresh REPL; then run in a shell "
    "`codriver export ID ... -o FILE`, or with `--since NAME` from a checkpoint on. Name the tests for what they "
    "promise, drop what only explored, and look into all that is marked as different. Run them with run_tests, "
    "then break one definition and see its test turn red.",
    (("what", "A function, a checkpoint, a time.", "the last piece of work"),),
)
