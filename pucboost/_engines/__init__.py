"""One file per engine: how masked rows, labels and weights get into it, and how it samples rows per tree."""
