"""Pages of the documentation, and the commands on them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]


def commands(page: Path) -> list[str]:
    """Lines of blocks of shell that call us, put together where they are continued, without what is said about them."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    text = "\n".join(block for language, block in blocks if language in ("", "sh"))
    text = re.sub(r"\\\n\s*", "", text)
    lines = [re.sub(r"(\s+#.*|\s{3,}.*)$", "", line.strip()) for line in text.splitlines()]
    return [line.partition(" > ")[0] for line in lines if line.startswith("vix ")]
