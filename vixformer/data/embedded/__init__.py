"""Images that come with the package, so that everything runs with no download."""
