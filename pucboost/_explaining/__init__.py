"""Reasons: which of a person's own data moved their score, and by how much; never what they withhold."""
