"""Kernels of the native engine: one binned matrix of the people, masked as it is read."""
