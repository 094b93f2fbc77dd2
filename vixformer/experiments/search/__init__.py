"""Searches: spaces over the fields of a recipe, and studies that several workers share. Optuna underneath; needs the
`search` extra."""
