"""A page of runs that moves while they train, and models to try: `vix serve RUNS`."""
