"""Tables in and out, known data sets, splits, and graphs packed for training."""
