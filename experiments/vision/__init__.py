"""The vision experiment: convolutional networks trained by EqProp and by backprop."""
