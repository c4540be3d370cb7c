"""The mathematics: errors of means, intervals, permutations, association. Numbers in, numbers out."""
