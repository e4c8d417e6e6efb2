"""Letters: a page for one person that says what they would be told for every choice of what they share.

``puc.quote`` tells analysts the same numbers. The functions are in ``letters``.
"""
