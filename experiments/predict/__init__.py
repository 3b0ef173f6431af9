"""What a saved network says of a user's samples."""
