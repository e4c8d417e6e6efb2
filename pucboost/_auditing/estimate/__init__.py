"""The audit's numbers."""
