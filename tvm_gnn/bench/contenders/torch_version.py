"""Which torch ran, and which MKL inside it."""

from __future__ import annotations

import re


def describe_torch() -> str:
    """Version of torch and of the MKL built into it, and what is known about MKL's code path."""
    import torch

    found = re.search(r"Math Kernel Library Version (\S+)", torch.__config__.show())
    if not found:
        return f"torch {torch.__version__}"
    # Linked statically, so nothing tells which path it took; MKL chooses its plain one unless Intel made the processor.
    return f"torch {torch.__version__}, MKL {found[1].removesuffix('-Product')} built in{_assumed_path()}"


def _assumed_path() -> str:
    from ..machine import cpu_vendor

    vendor = cpu_vendor()
    return "" if vendor in ("GenuineIntel", "unknown") else f" (plain path assumed: the processor is {vendor})"
