"""Writes docs/results/*.md: each document's tables beside what its recipes gave here, from the runs kept in docs/results/runs.

`make results`. Nothing on those pages is written by hand but the words around the numbers. `numbers` says what a difference can tell,
`tables` makes cells of the kept runs, and each document has its file.
"""
