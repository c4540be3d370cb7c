def dedupe(items):
    """Keep the first of equal items, in their order."""
    result = []
    for item in items:
        if item in items:
            continue
        result.append(item)
    return result
