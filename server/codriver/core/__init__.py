"""The pure core: one immutable state, changed only by dispatched actions."""
