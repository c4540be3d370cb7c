"""What is said to the wrapper inside a container, and what it says back."""
