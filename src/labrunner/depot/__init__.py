"""Agents on this host: fetched by npm, pip or uv as they are set up here, and kept by what they hold."""
