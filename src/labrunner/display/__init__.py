"""The terminal: records in, text out."""
