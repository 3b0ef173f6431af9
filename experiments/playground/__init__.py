"""The playground: one page in which a small network is seen to settle."""
