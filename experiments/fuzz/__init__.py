"""Hunt for networks that do not settle or learn as theory says."""
