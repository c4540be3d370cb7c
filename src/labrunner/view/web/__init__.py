"""HTTP: who may ask, what is answered, what has changed."""
