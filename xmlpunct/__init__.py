"""xmlpunct: continuous queries over punctuated XML streams."""
