"""The optional features of Codriver, each in its own package."""
