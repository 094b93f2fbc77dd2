"""A folder a run is the truth."""
