"""What the server answers: each module here assigns ROUTES, and there is no list to edit."""
