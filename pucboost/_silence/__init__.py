"""Silence that does not look like silence: imputed, or encoded as a value, a word or a column.

Whoever withholds is protected only if what they withhold is missing in the table. These modules look for tables in
which it seems to be there. They judge numbers, words and names, and never raise: training and audits say what is found.
"""
