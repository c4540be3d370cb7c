"""Other people's formats: exporters, one file each."""
