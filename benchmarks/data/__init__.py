"""The tables of the studies: real ones found and prepared, stand-ins for quick runs, a simulated one for timing."""
