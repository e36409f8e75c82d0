"""Compare the modules in this process with a fresh import of them in another process.

`leaves` describes the contents of a module as text, `import_process` and `import_program` import the module in another
process, and `comparison` finds the differences.
"""
