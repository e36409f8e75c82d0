"""The MCP prompt that asks an agent to turn a session into a test."""

from __future__ import annotations

from typing import Final

from codriver.server_hooks import Prompt

SESSION_TO_TEST: Final = Prompt(
    "session_to_test",
    "Make a test from this session",
    "Turn evaluations into a test file that is verified in a fresh REPL.",
    "Make a test file from the evaluations of {what}. Find them with repl_output_log, whose entities have "
    "evaluation, description and who. Choose those that show how the code should behave, and any that they "
    "depend on. Ask whether their code may run again, with all its side effects, in a fresh REPL. Then run "
    "`codriver export ID ... -o FILE` in a shell, or use `--since NAME` to start at a checkpoint. Name each test "
    "after the behavior it checks, remove those that only explored, and investigate everything marked as "
    "different. Run the tests with run_tests, then break one definition and check that its test fails.",
    (("what", "A function, a checkpoint, a time.", "the last piece of work"),),
)
