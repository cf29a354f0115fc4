"""What a search may spend: epochs, hours of GPUs, or money, as `5000epochs`, `40gpuh` or `30eur@1.2` (an hour)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from co2l.errors import Co2lError

_NUMBER = r"[0-9]{1,12}(\.[0-9]{1,6})?"
_FORM = re.compile(rf"(?P<amount>{_NUMBER})\s*(?P<unit>epochs|gpuh|eur)(@(?P<price>{_NUMBER}))?")


@dataclass(frozen=True)
class Budget:
    """Either `epochs`, each stage counted once, or `hours` of GPUs, by the clock; a trial on no GPU counts as one."""

    epochs: float | None = None
    hours: float | None = None

    @classmethod
    def parse(cls, text: str, where: str = "--budget") -> Budget:
        match = _FORM.fullmatch(text.strip())
        amount = float(match["amount"]) if match else 0.0
        price = float(match["price"]) if match and match["price"] else 0.0
        if match is None or not amount or (match["unit"] == "eur") != bool(price):
            fix = "give epochs, hours of GPUs, or money and the price of an hour: 5000epochs, 40gpuh or 30eur@1.2"
            raise Co2lError(f"'{text[:40]}' is not a budget", where=where, fix=fix)
        if match["unit"] == "epochs":
            return cls(epochs=amount)
        return cls(hours=amount / (price or 1.0))

    def in_epochs(self, trained: int, trial_hours: float, gpus: float) -> float | None:
        """All epochs that it pays for, if those `trained` took so many hours; None while nothing is known of that."""
        if self.hours is None:
            return self.epochs
        spent = trial_hours * (gpus or 1.0)
        return trained * self.hours / spent if trained and spent else None
