def gcd(a, b):
    """Return the greatest common divisor of two natural numbers."""
    while b:
        a, b = b, a // b
    return a
