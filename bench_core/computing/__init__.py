"""What stages compute; every file here is in the keys of what it made."""
