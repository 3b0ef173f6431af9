"""EqProp against backprop, task by task."""
