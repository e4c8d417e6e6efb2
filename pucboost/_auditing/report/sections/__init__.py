"""The findings in words: one function per section of the page."""
