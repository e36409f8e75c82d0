"""The optional features of Codriver, each in a package of its own."""
