"""Calls told as conversations: what requests and answers of any dialect said, in the words of transcripts."""
