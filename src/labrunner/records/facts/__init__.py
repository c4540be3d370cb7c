"""Lines of the files beside the rows: what was buffered, what earlier runs did, what is not to be used."""
