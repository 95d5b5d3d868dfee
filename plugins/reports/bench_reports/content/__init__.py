"""What a report says, before any format writes it down."""
