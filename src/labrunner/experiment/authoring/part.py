"""What all parts of an authored file have in common, and the plain values that many of them hold."""

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Seconds: TypeAlias = Annotated[float, Field(gt=0)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Count: TypeAlias = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """What all parts of an experiment file have in common."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
