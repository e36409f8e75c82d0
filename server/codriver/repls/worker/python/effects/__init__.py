"""Predict the effects of running a statement by analyzing its syntax and the objects that it names."""
