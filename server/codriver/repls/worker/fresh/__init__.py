"""Compare the modules of this process with a fresh import of them in another process.

`leaves` describes the contents of a module as text, `import_process` and `import_program` import it elsewhere, and
`comparison` finds the differences.
"""
