def to_roman(number):
    """Write a number from 1 to 3999 in Roman numerals."""
    numerals = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]
    result = ""
    for value, letters in numerals:
        while number >= value:
            result += letters
            number -= value
    return result
