"""What the five documents print and claim, as data: tables, figures, claims, and where everything they name is here."""

from vixformer.documents import cifar_kernels, fast_attention, hybrid, linear_tests, xformers
from vixformer.documents.claims import Document, find

DOCUMENTS: dict[str, Document] = {
    module.DOCUMENT.name: module.DOCUMENT for module in (fast_attention, cifar_kernels, linear_tests, hybrid, xformers)
}

__all__ = ["DOCUMENTS", "Document", "find"]
