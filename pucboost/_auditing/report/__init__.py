"""The audit's words, tables and pictures."""
