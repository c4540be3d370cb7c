"""Models for Python tasks: messages, settings, and asking them."""

from labrunner.solve.models.asking import Model, get_model, mock_model
from labrunner.solve.models.backend import ModelRequest, ProviderTrouble
from labrunner.solve.values.config import GenerateConfig
from labrunner.solve.values.messages import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    ToolCall,
    ToolCallError,
)

__all__ = [
    "ChatMessage",
    "ChatMessageAssistant",
    "ChatMessageSystem",
    "ChatMessageTool",
    "ChatMessageUser",
    "GenerateConfig",
    "Model",
    "ModelOutput",
    "ModelRequest",
    "ModelUsage",
    "ProviderTrouble",
    "ToolCall",
    "ToolCallError",
    "get_model",
    "mock_model",
]
