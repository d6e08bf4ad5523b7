"""Limits of the sandbox."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pandora_train.config import Config


class SandboxConfig(Config):
    """How generated code is run."""

    wall: float = Field(default=10.0, gt=0, le=3600)
    """Seconds one execution may take."""
    memory_mb: int = Field(default=1024, ge=64)
    """Memory one execution may take beyond what is loaded, in MiB."""
    max_rows: int = Field(default=100_000, gt=0)
    """Rows a result may have."""
    max_bytes: int = Field(default=4_000_000, ge=10_000)
    """Bytes of text a result may have."""
    workers: int = Field(default=0, ge=0)
    """Executions at once; further callers wait. 0: one a core, at least 2."""
    runner: Literal["local", "gvisor"] = "local"
    """``gvisor`` puts the same processes under gVisor's kernel; needs ``runsc`` on the PATH."""
    unsafe: bool = False
    """Run even where the kernel can't filter system calls (no seccomp): generated code may then do harm."""
