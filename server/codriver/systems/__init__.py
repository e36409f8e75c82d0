"""Support for different operating systems: files, processes, programs and terminals.

The relay has to run without this package and has its own `codriver_relay.windows`, parts of which are used here.
"""
