"""Many runs under one protocol: compare, budget, lanes, rounds, tuning, and search."""
