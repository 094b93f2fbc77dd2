"""What the five documents print and claim, as data: their tables, figures, claims, and where everything they name is here."""

from vixformer.documents import fast_attention, hybrid
from vixformer.documents.base import Document, find

DOCUMENTS: dict[str, Document] = {found.name: found for found in (fast_attention.DOCUMENT, hybrid.DOCUMENT)}

__all__ = ["DOCUMENTS", "Document", "find"]
