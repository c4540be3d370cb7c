"""The server: requests of attempts in, requests to providers out, teed to meter and record."""
