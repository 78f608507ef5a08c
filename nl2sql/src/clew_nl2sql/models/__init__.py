"""The three roles implemented with a language model, for any endpoint with an OpenAI-compatible chat API."""

from __future__ import annotations

from clew_nl2sql.models.chat import ChatModel
from clew_nl2sql.models.model_roles import ModelDecomposer, ModelPlanner, ModelSynthesizer

__all__ = ["ChatModel", "ModelDecomposer", "ModelPlanner", "ModelSynthesizer"]
