def clamp(x, low, high):
    """Limit x to the range from low to high."""
    if x < low:
        return low
    if x < high:
        return high
    return x
