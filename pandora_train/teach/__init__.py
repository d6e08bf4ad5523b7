"""Teachers: they fill the memory with programs whose executed answer equals gold."""
