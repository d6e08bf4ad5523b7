"""The sandbox."""

from pandora_train.sandbox.config import SandboxConfig
from pandora_train.sandbox.host import Sandbox

__all__ = ["Sandbox", "SandboxConfig"]
