"""The lab: a list of experiments that decide the documents' claims, and a loop that trains them beside all other
work."""
