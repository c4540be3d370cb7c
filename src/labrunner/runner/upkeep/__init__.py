"""Around a run: preflight, provenance, disk, halting, cleaning up."""
