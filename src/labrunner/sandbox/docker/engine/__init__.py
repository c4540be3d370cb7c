"""The Docker engine: calls, replies, images, labels, and whose fault a failure is."""
