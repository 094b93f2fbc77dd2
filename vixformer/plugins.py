"""Code from outside this package that joins the families of names: installed packages (entry points of the group
`vixformer.plugins`) and files (`--plugin FILE.py`)."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from vixformer.jsonfile import Given, Values
from vixformer.notes import note
from vixformer.registry import Named

GROUP, FLAG = "vixformer.plugins", "--plugin"
FILE_MODULE = "vix_plugin_"
"""The beginning of the module name of a file, which no other module has."""


@dataclass(frozen=True)
class Plugin:
    source: str
    """The file, or the name of the package."""
    content: str
    """The digest of the file, or the version of the package."""


PLUGINS: dict[str, Plugin] = {}
"""By the first part of the module name."""
_looked: list[bool] = []


def load_plugin(file: str | Path) -> ModuleType:
    """Run a Python file whose classes and recipes you want to use by name. The processes that vixformer starts load it
    too."""
    path = Path(file).expanduser().resolve()
    if not path.is_file() or path.suffix != ".py":
        what = "is not a Python file" if path.exists() else "is not there"
        raise ValueError(f"the plugin {file} {what}: give a file such as {FLAG} mymean.py")
    stem = re.sub(r"\W", "_", path.stem)
    name = f"{FILE_MODULE}{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    content = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    if name in sys.modules:
        if PLUGINS[name].content != content:
            raise ValueError(f"the plugin {file} has changed since it was loaded: start Python again")
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    PLUGINS[name] = Plugin(str(path), content)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name], PLUGINS[name]
        for family in Named.families:
            for word in [word for word, cls in family.members.items() if cls.__module__ == name]:
                del family.members[word]
        raise ValueError(f"the plugin {file} cannot be loaded: {_what(error)}{_line(error, path)}") from error
    return module


def load_installed() -> None:
    """The plugins of installed packages, once. One that fails is left out with a note, and nothing else fails."""
    if _looked:
        return
    _looked.append(True)  # a plugin may call what calls this
    for point in importlib.metadata.entry_points(group=GROUP):
        package = "" if point.dist is None else f" of {point.dist.name} {point.dist.version}"
        try:
            made = point.load()
            if callable(made):
                made()
        except Exception as error:
            note(f"the plugin {point.name}{package} is left out: {_what(error)}")
            continue
        if point.dist is not None:
            PLUGINS[point.module.partition(".")[0]] = Plugin(point.dist.name, point.dist.version)


def _what(error: Exception) -> str:
    return str(error) if type(error) in (ValueError, OSError) else f"{type(error).__name__}: {error}"


def _line(error: Exception, path: Path) -> str:
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"


def split_words(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that follow `--plugin` in the words of a command, and the other words."""
    files, rest, words = [], [], iter(args)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag != FLAG:
            rest.append(word)
            continue
        file = value if equals else next(words, "")
        if not file or file.startswith("-"):
            raise ValueError(f"{FLAG} needs a value: a Python file, such as mymean.py")
        files.append(file)
    return files, rest


def used_in(values: object) -> dict[str, str]:
    """Of plugins that define a word of the texts in these values, such as a recipe: the source and the content."""
    words = set(_words(values)) if PLUGINS else set()
    members = [cls for family in Named.families for word, cls in family.members.items() if word in words]
    found = [PLUGINS.get(cls.__module__.partition(".")[0]) for cls in members]
    return {plugin.source: plugin.content for plugin in found if plugin is not None}


def _words(values: object) -> Iterator[str]:
    if isinstance(values, str):
        yield from re.findall(r"[\w-]+", values)
    elif isinstance(values, dict | list | tuple):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _words(value)


def missing(sources: object) -> str:
    """The end of a sentence: which of these modules, files or packages is not loaded, and what to do."""
    known = {_short(plugin.source) for plugin in PLUGINS.values()} | set(sys.modules) - {"__main__"}
    names = [str(name) for name in sources] if isinstance(sources, list | dict) else []
    absent = [name for name in names if _short(name) not in known]
    if "__main__" in absent:
        return "; it was defined in the script or notebook that saved the model: define it here first"
    files = [name for name in absent if name.endswith(".py")]
    if gone := [name for name in files if Path(name).is_absolute() and not Path(name).exists()]:
        return f"; it was made with the plugin {gone[0]}, which is not there: put it back, or give its copy with {FLAG}"
    if files:
        return f"; it was made with a plugin: give {' '.join(f'{FLAG} {name}' for name in files)}"
    if isinstance(sources, dict):
        return f"; it was made with a plugin: pip install {' '.join(absent)}" if absent else ""
    return f"; import {', '.join(absent)} first, which the model was made with" if absent else ""


def _short(source: str) -> str:
    return Path(source).name if source.endswith(".py") else source


def source_of(module: str) -> str:
    """What has to be loaded for the classes of a module: the name of a plugin's file, or the module."""
    return _short(PLUGINS[module].source) if module.startswith(FILE_MODULE) else module


def is_foreign(cls: type) -> bool:
    """Whether a class was defined outside of this package."""
    return cls.__module__.partition(".")[0] != __package__


def foreign() -> Values:
    """The plugins, the modules outside this package whose classes joined a family, and their files: a helper process
    needs them to know the same names. It cannot import classes of a script or a notebook; these are listed
    separately."""
    members = [cls for family in Named.families for cls in family.members.values() if is_foreign(cls)]
    scripts = ("__main__", "__mp_main__")
    modules = sorted({cls.__module__ for cls in members}.difference(scripts))
    return {
        "path": [place for place in sys.path if isinstance(place, str)],  # others are ignored by Python too
        "plugins": [plugin.source for name, plugin in PLUGINS.items() if name.startswith(FILE_MODULE)],
        "modules": {
            name: getattr(sys.modules.get(name), "__file__", None)
            for name in modules
            if not name.startswith(FILE_MODULE)
        },
        "script": sorted(cls.name for cls in members if cls.__module__ in scripts),
    }


def import_foreign(found: Given) -> None:
    """In the helper process: what `foreign` found."""
    sys.path[:] = found["path"]
    load_installed()
    for file in found["plugins"]:
        load_plugin(file)
    for name, file in found["modules"].items():
        if name in sys.modules:
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # loaded by its file alone
            spec = importlib.util.spec_from_file_location(name, file) if file else None
            if spec is None or spec.loader is None:
                raise
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])


def complaint(error: BaseException, found: Given) -> str:
    """Of the helper process, in one sentence."""
    if found["script"] and str(error).startswith("unknown "):
        names = ", ".join(found["script"])
        return (
            f"another process cannot import {names} from a script or a notebook: move the class to a file of its own"
            " and import that"
        )
    return str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
