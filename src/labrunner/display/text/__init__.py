"""Text on a terminal: console, tables for any width, charts, quantities, and text made safe to print."""
