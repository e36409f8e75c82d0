"""The differences between operating systems: how processes end, how they are told apart, and where programs lie.

The relay runs without this package and has its own differences in `codriver_relay.windows`; some of them are used here.
"""
