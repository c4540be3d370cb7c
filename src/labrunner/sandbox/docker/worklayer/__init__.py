"""Work in a folder of an image, carried from one container into another: taken at the barrier, put back."""
