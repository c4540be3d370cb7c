"""One run in one file, with the pages to look at it."""
