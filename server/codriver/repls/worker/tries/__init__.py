"""Tries: candidates done in forked processes of their own, from which only their answers come back.

worker → one supervisor, its only child → a candidate each. Linux, standard library alone.
"""
