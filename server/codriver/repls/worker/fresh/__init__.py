"""Compare the modules in this process with a fresh import of them in another process.

`leaves` describes the contents of a module as text, and `uncompared_edits` describes the changes that loads made to it.
`import_process` and `import_program` import the module in another process, and `fresh_imports` finds the differences.
`comparison` decides when this happens: only while no code is being evaluated, according to `idle_time`.
"""
