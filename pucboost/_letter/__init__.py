"""Letters to people: ``letters`` makes them, ``text`` words them."""
