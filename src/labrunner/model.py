"""Models for Python tasks: messages, settings, and asking them."""

from labrunner.solve.backend import ProviderTrouble, Request
from labrunner.solve.config import GenerateConfig
from labrunner.solve.messages import (
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
from labrunner.solve.mock import mock_model
from labrunner.solve.model import Model, get_model

__all__ = [
    "ChatMessage",
    "ChatMessageAssistant",
    "ChatMessageSystem",
    "ChatMessageTool",
    "ChatMessageUser",
    "GenerateConfig",
    "Model",
    "ModelOutput",
    "ModelUsage",
    "ProviderTrouble",
    "Request",
    "ToolCall",
    "ToolCallError",
    "get_model",
    "mock_model",
]
