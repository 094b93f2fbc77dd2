"""The version that was installed, which the build takes from git; found without importing torch."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("vixformer")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"
