"""Update the results of statements that depend on something that a load has changed."""
