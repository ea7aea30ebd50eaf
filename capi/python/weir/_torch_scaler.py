"""Gradients that a GradScaler multiplies."""
from __future__ import annotations

from typing import Any, Dict, Optional

from ._types import ArgumentError


class Scale:
    """The factor by which a GradScaler multiplies the loss, if there is one."""

    def __init__(self, scaler: Any) -> None:
        self.scaler = scaler
        self._last: Optional[float] = None

    def change(self) -> float:
        """Returns the factor divided by that of the last call; 1 at the first call and without a scaler."""
        if self.scaler is None:
            return 1.0
        last, self._last = self._last, float(self.scaler.get_scale())
        return 1.0 if last is None else self._last / last


def with_scaler(scaler: Any, keywords: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the keywords of a plan whose gradients `scaler` multiplies; without a scaler, `keywords` as they are."""
    if scaler is None:
        return keywords
    if not callable(getattr(scaler, "get_scale", None)):
        raise ArgumentError(f"scaler is of type {type(scaler).__name__}: it must be a torch.cuda.amp.GradScaler, or have its get_scale()")
    given = keywords.get("non_finite", "skip")
    if getattr(given, "name", given) != "skip":
        raise ArgumentError(f"non_finite is {given!r}: with a scaler it must be 'skip'")
    return {**keywords, "non_finite": "skip"}
