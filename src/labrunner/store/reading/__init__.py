"""Reading a run, live or dead, without disturbing its owner."""
