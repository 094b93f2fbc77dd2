"""What the words after `vix` do, and print."""
