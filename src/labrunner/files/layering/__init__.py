"""Layers: what was changed below one folder of an image, as one compressed archive."""
