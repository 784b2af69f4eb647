"""How fast we are, beside what people use today; each contender in a process of its own."""
