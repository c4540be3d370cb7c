"""Web pages over runs: read-only, live, nothing fetched from elsewhere."""
