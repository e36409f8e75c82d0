"""Warm test runs: copies of a process that has imported pytest and a project's packages, and nothing of the workspace.

`starter` starts runs, warm or plain, behind the same interface as a plain process. `decisions` says which, `plans` what
to preload, `comparison` whether a warm run says what a plain one said; all three are pure. `warm_process` owns the
process, and `child` has the programs that run in it. Nothing else of the server depends on this package.
"""
