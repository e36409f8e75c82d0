"""Predict the effects of running a statement, from its syntax and the objects that it names."""
