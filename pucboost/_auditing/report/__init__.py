"""The audit's words, tables and plots.

How things are written: ``numbers``, ``text`` → what a page is made of: ``blocks`` → plots: ``drawing``, ``plot_*``,
``plotting``, ``svg`` → words: ``sections`` → pages, model cards and plain text: ``rendering``.
"""
