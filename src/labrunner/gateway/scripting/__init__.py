"""A model that a script stands for: no provider is asked."""
