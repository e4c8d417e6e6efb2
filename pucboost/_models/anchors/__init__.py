"""Anchors: existing models of base features, and how each kind of them is asked."""
