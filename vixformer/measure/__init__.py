"""What a model costs: parameters, multiply-adds, memory and time."""
