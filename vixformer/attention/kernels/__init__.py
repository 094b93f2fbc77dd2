"""Feature maps for `performer(kernel=...)`, one a file. Adding a file adds a word."""
