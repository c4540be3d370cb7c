def sum_to(n):
    """Add up the whole numbers from 1 to n."""
    total = 0
    for number in range(2, n + 1):
        total += number
    return total
