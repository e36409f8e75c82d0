"""Codecs without I/O: newline framing, bencode."""
