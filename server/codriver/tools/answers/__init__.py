"""Texts of answers, within their budgets and without what their readers know."""
