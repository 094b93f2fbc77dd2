"""Wheels with compiled kernels inside, made from the wheel that has none: `python -m tools.wheels
dist/vixformer-*-py3-none-any.whl`.

Each is put beside that wheel. `--machine x86_64` makes one of them. The compilers are Debian's and Ubuntu's: gcc for
the machine itself, gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu for the other. OpenMP's functions are left undefined:
the package finds torch's.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vixformer.ops.native.build import FLAGS, HERE
from vixformer.ops.native.targets import TARGETS
from vixformer.options import first_paragraph

GLIBC = 28
"""2.28, as torch's wheels have it; logf is of 2.27."""
MACHINES = tuple(sorted({target.machine for target in TARGETS.values()}))
INSIDE = HERE.relative_to(Path(__file__).parents[1])


def platform_tag(machine: str) -> str:
    return f"manylinux_2_{GLIBC}_{machine}"


def compiler(machine: str) -> str:
    return f"{machine}-linux-gnu-gcc"


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("wheel", type=Path, help="the wheel without kernels")
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        action="append",
        help="a processor; may be given again, and without it all are made",
    )
    options = parser.parse_args()
    if not options.wheel.name.endswith("-py3-none-any.whl") or not options.wheel.is_file():
        raise SystemExit(
            f"{options.wheel} is no wheel without kernels: python -m build --wheel makes one, whose name ends in"
            " -py3-none-any.whl"
        )
    machines = options.machine or MACHINES
    for machine in machines:
        if shutil.which(compiler(machine)) is None:
            package = compiler(machine).removesuffix("-gcc").replace("_", "-")
            raise SystemExit(
                f"there is no {compiler(machine)}: install gcc-{package}, or choose another with --machine"
            )
    for machine in machines:
        print(made(options.wheel, machine))


def made(wheel: Path, machine: str) -> Path:
    """A wheel beside this one that has kernels for this machine."""
    with tempfile.TemporaryDirectory() as work:
        run("-m", "wheel", "unpack", "--dest", work, str(wheel))
        (folder,) = Path(work).iterdir()
        add_kernels(folder / INSIDE, machine)
        (facts,) = folder.glob("*.dist-info/WHEEL")
        tag = platform_tag(machine)
        facts.write_text(
            facts.read_text()
            .replace("Purelib: true", "Purelib: false")
            .replace("Tag: py3-none-any", f"Tag: py3-none-{tag}")
        )
        run("-m", "wheel", "pack", "--dest-dir", str(wheel.parent), str(folder))
    result = wheel.with_name(wheel.name.replace("-any.whl", f"-{tag}.whl"))
    said = run("-m", "auditwheel", "show", str(result))
    found = re.search(rf'"manylinux_2_(\d+)_{machine}"', said)
    if found is None or int(found[1]) > GLIBC:
        result.unlink()
        raise SystemExit(f"it is no {tag}: {said}")
    return result


def add_kernels(folder: Path, machine: str) -> None:
    """A library for each instruction set, beside its sources. In two steps: a linker that hears of OpenMP would name a
    runtime."""
    gcc = compiler(machine)
    for name, target in TARGETS.items():
        if target.machine != machine:
            continue
        with tempfile.TemporaryDirectory() as objects:
            subprocess.run(
                [gcc, *FLAGS, *target.flags, "-c", *map(str, sorted(folder.glob("*.c")))], cwd=objects, check=True
            )
            made = map(str, sorted(Path(objects).glob("*.o")))
            subprocess.run(
                [gcc, "-shared", "-s", *made, "-Wl,--as-needed", "-lm", "-o", str(folder / f"{name}.so")], check=True
            )


def run(*words: str) -> str:
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
