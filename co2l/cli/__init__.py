"""What commands share: arguments, console, progress, and the address to open in a browser."""
