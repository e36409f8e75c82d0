"""The room that knows what operating systems differ in: how processes end, by what they are told, where programs lie.

The relay, which runs without this room, has its own in `codriver_relay.windows`; some of that is used here.
"""
