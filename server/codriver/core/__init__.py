"""The pure core: one immutable state, changed only by dispatched actions.

`dispatch` is the entry point: `Core` takes actions (`actions`), finds their handlers by class (`handlers`), and has
effects performed. It resolves values that actions and effects only refer to (`records`). `state` is the one value, made
of the classes in `values`, which adapters and tools use unchanged.

*From a request to the REPL*, an evaluation has five shapes:

1. the line of JSON-RPC that a client sent, parsed to a dictionary (`protocol.plain_requests`);
2. the checked arguments of the tool, such as `EvaluateArguments` (`tools.evaluate_code`);
3. `values.Request`, made by the tool and never changed: the action `Evaluate` brings it, the state stores it while it
   waits, the effect `RunEvaluation` carries it to the adapter;
4. the fields of the REPL's message, one message per form (`repls.nrepl.evaluation`);
5. the message's bytes (`wire.bencode`).

*From a failure to the answer* there are three:

1. the fields that the server sent (`repls.nrepl.failures.SentFailure`);
2. `values.Failure`, which ending, action, state and tools pass on unchanged;
3. the fields of the answer (`tools.answers.evaluation_answers.failure_json`).
"""
