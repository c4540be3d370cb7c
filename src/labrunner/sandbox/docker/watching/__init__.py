"""What an agent changed in its container's system, seen from outside."""
