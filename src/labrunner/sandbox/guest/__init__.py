"""What runs inside a container: POSIX sh, so that any image with `/bin/sh` and a few tools can run it."""
