def letter_grade(points):
    """Return A from 90 points, B from 80, C from 70, else F."""
    if points > 90:
        return "A"
    if points > 80:
        return "B"
    if points > 70:
        return "C"
    return "F"
