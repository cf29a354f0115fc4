"""The parts of a space's file that say how a configuration is chosen: on what data, over what, by which protocol."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Greedy(Part):
    beam: int = Field(1, ge=1, le=1000, description="states that training goes on from after each task, from 1")


class Transfer(Part):
    to: str = Field(description="the benchmark that what is selected is evaluated on")
    settings: dict[str, Any] = Field({}, description="settings there, as {epochs: 50}")
    map: dict[str, Any] = Field({}, description="what values become there, as {eta: same, buffer_size: {50: 200}}")

    @field_validator("map")
    @classmethod
    def _by_text(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Keys as text, as they come back from a record."""
        pairs = {name: to.items() if isinstance(to, dict) else None for name, to in given.items()}
        return {
            name: given[name] if values is None else {str(value): new for value, new in values}
            for name, values in pairs.items()
        }


class Protocol(Part):
    """What the selection may see: at most one of these; none for the validation accuracy after the last task."""

    first_k: int | None = Field(None, ge=1, le=10_000, description="how many tasks are learned before the choice")
    greedy: Greedy | None = Field(None, description="greedy or {beam: 1}")
    transfer: Transfer | None = Field(None, description="{to: r_digits}")

    @property
    def name(self) -> str:
        given = (name for name in Protocol.model_fields if getattr(self, name) is not None)
        return next(given, "end")

    @property
    def beam(self) -> int:
        """Of a greedy one, else 0."""
        return self.greedy.beam if self.greedy else 0

    def __str__(self) -> str:
        about = {"first_k": f" {self.first_k}", "greedy": f" {self.beam}"}
        return self.name + (f" to {self.transfer.to}" if self.transfer else about.get(self.name, ""))

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: object) -> object:
        if given is None or given == "end":
            return {}
        if given == "greedy" or given == {"greedy": None}:
            return {"greedy": {}}
        if not isinstance(given, dict | Protocol):
            raise ValueError("not end, {first_k: 2}, greedy or {transfer: {to: r_digits}}")
        if isinstance(given, dict) and len(given) > 1:
            raise ValueError(f"{' and '.join(map(str, given))} are two protocols")
        return given

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> str | dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None} or "end"


class Validation(Part):
    fraction: float = Field(0.1, gt=0, lt=1, description="share of the training examples, between 0 and 1")
    seed: int = Field(0, ge=0, description="a whole number from 0, which draws them")
    by: Literal["all", "class"] = Field(
        "all", description="all or class: whether they are drawn from all examples or from each class by itself"
    )

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Studies from before there was `by` continue."""
        return {name: value for name, value in dump(self).items() if (name, value) != ("by", "all")}


class Race(Part):
    seeds: int = Field(ge=2, le=1000, description="how many the best few are tried with, the space's own too, from 2")
    share: float = Field(0.3, gt=0, lt=1, description="of the search's epochs, between 0 and 1")


class Selection(Part):
    per: tuple[str, ...] = Field((), strict=False, description="a list of axes: one choice for each of their values")
    mean_over: tuple[str, ...] = Field((), strict=False, description="a list of axes: one choice for all their values")
    protocol: Protocol = Field(Protocol(), description="end, {first_k: 2}, greedy or {transfer: {to: r_digits}}")
    race: Race | None = Field(None, description="{seeds: 5, share: 0.3}, or off")

    @field_validator("race", mode="before")
    @classmethod
    def _off(cls, given: object) -> object:
        """YAML reads off as false."""
        return None if given is False or given == "off" else given

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Studies from before there were protocols or races continue."""
        default = {"protocol": "end", "race": None}
        return {name: value for name, value in dump(self).items() if name not in default or default[name] != value}
