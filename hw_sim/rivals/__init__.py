"""What EqProp is compared with, on the same chips."""
