"""Messages of kernels as values, the reader of their contents, and the contract of a channel that carries them."""
