"""Bodies that come in pieces: events, JSON objects, compression. Pure."""
