"""The pure core: one immutable state, changed only by dispatched actions.

`dispatch.Core` is the entry point. It passes each action (`actions`) to the handler for its class (`handlers`), stores
the new state and performs the effects. Where actions and effects contain references instead of values (`records`),
`dispatch` resolves them. `state` defines the state, built from classes that adapters and tools also use: `requests`,
`evaluations`, `profiles`.

On its way *from a request to the REPL*, an evaluation takes five forms:

1. the JSON-RPC line that a client sent, parsed to a dictionary (`protocol.plain_requests`);
2. the validated arguments of the tool, such as `EvaluateArguments` (`tools.evaluate_code`);
3. `requests.Request`, created by the tool and never changed. The action `Evaluate` contains it, the state stores it
   while it waits, and the effect `RunEvaluation` passes it to the adapter;
4. the fields of the REPL's message, one message per form (`repls.nrepl.evaluation`);
5. the bytes of that message (`wire.bencode`).

On its way *back to the answer*, a failure takes three forms:

1. the fields that the REPL's server sent (`repls.nrepl.failures.SentFailure`);
2. `evaluations.Failure`, which actions, the state and tools pass on unchanged;
3. the fields of the answer (`tools.answers.evaluation_answers.failure_json`).
"""
