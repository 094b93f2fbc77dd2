"""The version that was installed, which the build takes from git; found without importing torch."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    __version__ = version("vixformer")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"


@cache
def code_version() -> str:
    """Of the code that runs: of a checkout the commit, with `-changed` where files of the package are not as committed;
    else the version that was installed."""
    checkout = Path(__file__).parent.parent
    if not (checkout / ".git").exists():
        return __version__
    git = ["git", "-C", str(checkout)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "vixformer"], capture_output=True)
    except OSError:
        return __version__
    return __version__ if commit.returncode else commit.stdout.strip() + ("-changed" if changed.returncode else "")
