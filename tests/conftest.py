"""For all tests: hypothesis without a deadline, since a busy machine is no failure of the code."""

import setuptools  # noqa: F401  (before anything imports distutils: vLLM's own import of it fails otherwise)
from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
