"""Reports from run folders alone: figures, tables, sentences, and one page that holds them. Needs the `report`
extra."""
