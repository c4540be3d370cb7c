def hours_between(start, end):
    """Count the full hours from start to end on a 24-hour clock."""
    return (start - end) % 24
