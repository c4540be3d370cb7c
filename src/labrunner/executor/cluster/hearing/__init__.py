"""What this end makes of what nodes tell of attempts."""
