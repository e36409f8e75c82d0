"""Calls: a tool and its arguments, the gate, the session that serves it, and the envelope of its answer."""
