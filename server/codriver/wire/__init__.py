"""Codecs without I/O: newline framing, bencode, ZMTP, and limits for JSON from untrusted peers."""
