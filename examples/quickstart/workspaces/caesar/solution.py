def caesar(text, shift):
    """Move each letter of the alphabet by shift places; all else stays."""
    result = ""
    for letter in text:
        code = ord(letter)
        if code >= 97 and code <= 122:
            code = (code - 97 + shift) % 26 + 97
        elif code >= 65 and code <= 90:
            code = (code - 64 + shift) % 26 + 65
        result += chr(code)
    return result
