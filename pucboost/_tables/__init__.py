"""Tables of any kind as blocks of numbers: arrays, DataFrames, files. Nothing here knows about consent."""
