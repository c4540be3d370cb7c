"""What the engine costs, measured against doing the same work without it. Run `scripts/bench`."""
