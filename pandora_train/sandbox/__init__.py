"""The sandbox: runs code that a model wrote, a few milliseconds an execution.

One warm, locked-down process (the *zygote*: Python with pandas loaded) is started per :class:`Sandbox`.
Every execution is a fork of it that takes one request (code, and the frames of its question in a neutral
form), answers once in length-capped JSON and is killed; a few wait forked in advance. The host holds a socket
to each child and the only clock. The walk: ``host`` (a run, retries) -> ``process`` (the zygote's handle) ->
``inside.zygote`` -> ``inside.child`` -> ``inside.cells``, ``inside.hints`` -> ``verdict`` (bytes to record).

**Covered**, by two layers or more where the kernel has them (``capabilities()`` says which hold here):

- *Files*: an own root of read-only pandas, numpy and standard library (mount namespace); nothing else may be
  opened, and nothing for writing (Landlock; seccomp). No /proc, /sys or /dev.
- *Network*: none (network namespace, no sockets by seccomp, no TCP by Landlock).
- *Other processes*: can't be seen, signalled or traced (PID namespace, seccomp, Landlock scopes, no
  dumps); no fork, thread or program can be started (seccomp, RLIMIT_NPROC).
- *The kernel*: some 60 system calls, several only with harmless arguments; no capability, nobody's ids,
  no new privileges; no page both writable and executable.
- *Secrets*: the environment is empty but for seeds, zone and locale; frames of other questions aren't there.
- *Time, memory, output*: killed at the wall time, whatever it does with signals; RLIMIT_AS; rows and bytes
  capped in the child and again on the host, which parses nothing but JSON and checks every field.
- *The next execution*: each is a fresh fork, so patched modules, frames or seeds are gone.

**Not covered**:

- Bugs of the kernel behind the allowed calls, and side channels of the processor. ``runner: gvisor`` puts a
  second kernel before the first (there the container's own /proc, /dev, system libraries and this folder can
  be read, and start and executions are slower); for hostile tenants use a virtual machine.
- A forged result: code that fakes its own reply gives a wrong answer, as it could by ``result = ...``.
- Load: ``workers`` executions may each use a core and ``memory_mb`` at once; size them for the machine.
- What the answer itself says: cells, column names and hints are untrusted text, to be escaped where shown.
- Without mount namespaces (most containers) Landlock alone guards files, and names and sizes of files can be
  told by ``stat``; a warning says so. Without seccomp, or with nothing that guards files, it is refused.
"""

from pandora_train.sandbox.config import SandboxConfig
from pandora_train.sandbox.host import Sandbox
from pandora_train.sandbox.probes import Capability, SandboxWarning

__all__ = ["Capability", "Sandbox", "SandboxConfig", "SandboxWarning"]
