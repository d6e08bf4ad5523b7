"""What runs inside the sandbox: standard library, numpy and pandas only.

The host starts a fresh interpreter on this folder (see :mod:`pandora_train.sandbox.process`), so these
modules import each other relatively and nothing else of the project.
"""
