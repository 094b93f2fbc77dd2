"""Figures of a report. Those that groups of runs give register themselves, in the order they are shown."""

from vixformer.report.figures import costs, layouts, learning
from vixformer.report.figures.figure import Figure, all_figures

__all__ = ["Figure", "all_figures", "costs", "layouts", "learning"]
