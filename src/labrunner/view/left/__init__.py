"""What a trial left: texts, conversations, files, each cut to a screen."""
