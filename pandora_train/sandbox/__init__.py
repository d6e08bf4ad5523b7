"""The sandbox."""

from pandora_train.sandbox.config import SandboxConfig
from pandora_train.sandbox.host import Sandbox
from pandora_train.sandbox.probes import Capability, SandboxWarning

__all__ = ["Capability", "Sandbox", "SandboxConfig", "SandboxWarning"]
