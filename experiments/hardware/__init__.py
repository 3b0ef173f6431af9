"""What training and inference cost on simulated hardware, and whether the network still learns."""
