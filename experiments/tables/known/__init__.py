"""What each page shows: its measurements and its tables."""
