"""Writes docs/results/*.md: each document's tables beside what its recipes gave here, from the records in
docs/results/records.

`make results`. Nothing on those pages is written by hand but the words around the numbers. `tables` makes cells of the
kept runs, and each page is made by `document` from vixformer.documents, by `python -m tools.pages`, which draws the
figures too.
"""
