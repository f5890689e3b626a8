"""What runs inside the user's training process, and the launcher that puts it there. Standard library only."""
