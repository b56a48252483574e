"""The local stack."""
