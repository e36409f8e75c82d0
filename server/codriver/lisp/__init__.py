"""Reading, balancing and editing Lisp text, without I/O."""
