"""bubblewrap: each phase in namespaces of its own, without a daemon."""
