"""Disk done right, in one place: durable writes, hostile reads, removal, and what this host is."""
