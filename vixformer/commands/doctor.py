"""Check PyTorch, threads, instruction sets and compiled kernels; if the kernels are off, print why and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from vixformer.tables import say


@dataclass(frozen=True, kw_only=True)
class Options:
    pass


def run(options: Options) -> None:
    import warnings

    import torch

    from vixformer.measure.machine import processor
    from vixformer.notes import Note
    from vixformer.ops import native
    from vixformer.plugins import PLUGINS
    from vixformer.version import __version__

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)  # what it would say stands below
        status = native.status()
    lines = {
        "vixformer": __version__,
        "torch": torch.__version__,
        "processor": processor(),
        "instructions": f"{torch.backends.cpu.get_cpu_capability()} in torch"
        + (f", {status.instructions} in the compiled kernels" if status.on else ""),
        "threads": str(torch.get_num_threads()),
        "kernels": "on" if status.on else f"off: {status.reason}",
    }
    if status.on:
        lines["library"] = f"{status.library} ({status.origin})"
    else:
        lines["to do"] = str(status.advice)
    if PLUGINS:
        lines["plugins"] = ", ".join(f"{plugin.source} ({plugin.content})" for plugin in PLUGINS.values())
    for name, value in lines.items():
        say(f"{name:<12}  {value}")
