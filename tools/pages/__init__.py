"""Writes docs/results/*.md: each document's tables beside what its recipes gave here, from the records in docs/results/records.

`make results`. Nothing on those pages is written by hand but the words around the numbers. `tables` makes cells of the kept runs, and each
document has its file; what a difference can tell is in vixformer.results.statistics.
"""
