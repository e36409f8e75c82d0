"""Update what other statements have computed from something that a load changed."""
