"""The protocols of model providers, read as values. Pure: no sockets, no clocks, no files."""
