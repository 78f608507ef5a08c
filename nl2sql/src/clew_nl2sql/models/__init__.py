"""The three roles played by a language model, behind any endpoint that speaks OpenAI's chat protocol."""

from __future__ import annotations

from clew_nl2sql.models.chat import ChatModel
from clew_nl2sql.models.model_roles import ModelDecomposer, ModelPlanner, ModelSynthesizer

__all__ = ["ChatModel", "ModelDecomposer", "ModelPlanner", "ModelSynthesizer"]
