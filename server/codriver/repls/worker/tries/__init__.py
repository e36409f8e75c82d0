"""Tries: candidates done in forked processes of their own, of which nothing comes back but what they tell.

worker → one supervisor, its only child → a candidate each. Linux, standard library alone.
"""
