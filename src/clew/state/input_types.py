"""The types of the input of a run: values by name, a state to continue from, or an instance of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from msgspec import Struct

    from clew.state.graph_state import GraphState

    class DataclassInstance(Protocol):
        """An instance of any dataclass."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class ModelInstance(Protocol):
        """An instance of any pydantic model."""

        def model_dump(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...

    Instance = DataclassInstance | ModelInstance | Struct
    Given: TypeAlias = Mapping[str, Any] | Instance
    Values: TypeAlias = Given | GraphState
