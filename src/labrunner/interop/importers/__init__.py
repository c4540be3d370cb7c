"""Other people's tasks as experiments: each exactly as it is written, or refused by file and field."""
