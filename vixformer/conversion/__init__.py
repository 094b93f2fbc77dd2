"""Other attention for a trained model: a function on weights, and then a little training."""
