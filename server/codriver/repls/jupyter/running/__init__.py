"""One kernel and all that runs in it: requests, executions, failures, and the evaluations of other clients."""
