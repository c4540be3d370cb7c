"""The rooms of the source, counted: sizes, who imports whom, cycles, names. Run `scripts/house`."""
