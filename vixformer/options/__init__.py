"""The options of a command: one frozen dataclass, from which flags, checks, help and completion come.

A field `val_fraction: float = 0.1` is the flag `--val-fraction X`, and the text below the field is its help. `words`
makes a field of the words between the flags, `sections` one for the fields of other dataclasses, such as `--train.lr`.
`Means` in an annotation says in words what a value is.
"""

from vixformer.options.fields import (
    PLUGIN,
    Changes,
    File,
    Folder,
    Option,
    Sections,
    all_options,
    as_typed,
    find_options,
    first_paragraph,
    flag_of,
    needed,
    only,
    options_of,
    sections,
    short,
    words,
)
from vixformer.options.help import help_of, usage
from vixformer.options.hints import Means, Separated, names_of, takes
from vixformer.options.parse import parse, pick_kind, unknown_option, value_of

__all__ = [
    "PLUGIN",
    "Changes",
    "File",
    "Folder",
    "Means",
    "Option",
    "Sections",
    "Separated",
    "all_options",
    "as_typed",
    "find_options",
    "first_paragraph",
    "flag_of",
    "help_of",
    "names_of",
    "needed",
    "only",
    "options_of",
    "parse",
    "pick_kind",
    "sections",
    "short",
    "takes",
    "unknown_option",
    "usage",
    "value_of",
    "words",
]
