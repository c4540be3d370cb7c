def is_prime(n):
    """Tell whether n is a prime number."""
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor < n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True
